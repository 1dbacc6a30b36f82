package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// startLiars has four orderers, of which one may lie.
func startLiars(t *testing.T) *fixture {
	return startWith(t, peertest.Options{Mode: channelconfig.Stream, Liars: 1}, nil)
}

// silent takes what it is sent and does not answer.
func (o *orderer) silent() {
	o.serve = func(st ordererpb.AtomicBroadcast_BroadcastServer) error {
		for {
			env, err := st.Recv()
			if err != nil {
				return nil
			}
			o.note(env)
		}
	}
}

func (f *fixture) counts() (n [4]int) {
	for i, o := range f.orderers {
		n[i] = o.count()
	}
	return n
}

func TestWhereOrderersMayLieOneMoreThanMayIsAsked(t *testing.T) {
	f := startLiars(t)
	require.NoError(t, f.submit("a"))
	assert.Equal(t, [4]int{1, 1, 0, 0}, f.counts())
}

// TestALiarsSuccessIsNone: the others refuse, or are away.
func TestALiarsSuccessIsNone(t *testing.T) {
	f := startLiars(t)
	for _, o := range f.orderers[1:] {
		o.saying(commonpb.Status_SERVICE_UNAVAILABLE, "no leader")
	}
	err := f.submit("a")
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "1 of 2 orderers needed could successfully process transaction")
	for _, o := range f.orderers[1:] {
		o.server.Stop()
	}
	assert.Equal(t, codes.Unavailable, status.Code(f.submit("b")))
}

// TestALiarsRefusalIsNone either: the next one is asked. What two say counts.
func TestALiarsRefusalIsNone(t *testing.T) {
	for want, c := range map[string]struct {
		code commonpb.Status
		info string
	}{
		"ResourceExhausted: ": {commonpb.Status_SERVICE_UNAVAILABLE, "RESOURCE_EXHAUSTED: too many transactions wait to be ordered"},
		"Aborted: ":           {commonpb.Status_FORBIDDEN, "not a writer"},
	} {
		f := startLiars(t)
		f.orderers[0].saying(c.code, c.info)
		require.NoError(t, f.submit("a"))
		assert.Equal(t, [4]int{1, 1, 1, 0}, f.counts())
		f = startLiars(t)
		for _, o := range f.orderers[:2] {
			o.saying(c.code, c.info)
		}
		assert.Contains(t, f.described(f.submit("a")), want+fmt.Sprintf("received unsuccessful response from orderer: status=%s, info=%s", c.code, c.info))
	}
}

// TestWhoMayOrderWhatHasFailedIsTold: a client must not take it for refused where an orderer has said SUCCESS, or has not
// answered yet.
func TestWhoMayOrderWhatHasFailedIsTold(t *testing.T) {
	for name, info := range map[string]string{"too few": "no leader", "too busy": "RESOURCE_EXHAUSTED: too many transactions wait"} {
		f := startLiars(t)
		for _, o := range f.orderers[1:] {
			o.saying(commonpb.Status_SERVICE_UNAVAILABLE, info)
		}
		said := f.described(f.submit("a"))
		// The first one's answer may come after those of two others.
		assert.Regexp(t, "\norderer0 OrdererMSP: (SUCCESS was said by too few orderers|no answer was waited for)", said, name)
	}
}

// TestAnOrdererThatIsSilentOrGoneIsAskedLast from then on.
func TestAnOrdererThatIsSilentOrGoneIsAskedLast(t *testing.T) {
	for name, spoil := range map[string]func(*orderer){
		"silent": (*orderer).silent,
		"gone":   func(o *orderer) { o.server.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			f := startLiars(t)
			spoil(f.orderers[0])
			for i := range 3 {
				require.NoError(t, f.submit(fmt.Sprint(i)))
			}
			assert.LessOrEqual(t, f.orderers[0].count(), 1)
			assert.Equal(t, 3, f.orderers[1].count())
			assert.Equal(t, 3, f.orderers[2].count())
			assert.Zero(t, f.orderers[3].count())
		})
	}
}

// TestTheLeaderIsAskedFirstWhereAllNameIt, and not where a liar alone does.
func TestTheLeaderIsAskedFirstWhereAllNameIt(t *testing.T) {
	f := startLiars(t)
	f.orderers[0].saying(commonpb.Status_SUCCESS, f.orderers[3].address)
	require.NoError(t, f.submit("a"))
	require.NoError(t, f.submit("b"))
	assert.Equal(t, [4]int{2, 2, 0, 0}, f.counts())
	f = startLiars(t)
	for _, o := range f.orderers {
		o.saying(commonpb.Status_SUCCESS, f.orderers[3].address)
	}
	require.NoError(t, f.submit("a"))
	require.NoError(t, f.submit("b"))
	assert.Equal(t, [4]int{2, 1, 0, 1}, f.counts())
}

// TestTooManySilentIsNoSuccess: the client's own time ends it.
func TestTooManySilentIsNoSuccess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all := [4]int{1, 1, 1, 1}
	var asked [4]int
	for patience := 3 * time.Second; asked != all && patience < time.Minute; patience *= 4 { // a busy host asks later
		f := startLiars(t)
		for _, o := range f.orderers[1:] {
			o.silent()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := f.client.Submit(ctx, submit("a"))
		cancel()
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		asked = f.counts()
	}
	assert.Equal(t, all, asked, "all have been asked meanwhile")
}
