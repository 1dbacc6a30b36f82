package orderer

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// attended is a consenter that tells its clients who orders, and nothing after it, until the test has it be removed.
type attended struct {
	consensus.Consenter
	told    chan consensus.Told
	heard   chan []byte
	removed chan struct{}
}

func (a *attended) Leader() uint64                   { return 0 }
func (a *attended) Queued() (proposals, waiting int) { return 0, 0 }
func (a *attended) Busy() float64                    { return 0 }

func (a *attended) Run(ctx context.Context) error {
	select {
	case <-a.removed:
		return consensus.ErrRemoved
	case <-ctx.Done():
		return nil
	}
}

func (a *attended) Attend() *consensus.Attendance {
	a.told <- consensus.Told{Epoch: 1, Members: []uint64{1}}
	return &consensus.Attendance{Told: a.told, Leave: func() {}, Hear: func(m []byte) error {
		a.heard <- m
		return nil
	}}
}

// attend connects a client to an orderer with such a consenter, which has told it who orders.
func attend(t *testing.T) (*attended, grpc.BidiStreamingClient[streampb.Said, streampb.Said]) {
	a := &attended{told: make(chan consensus.Told, 1), heard: make(chan []byte, protoutil.MostSaid), removed: make(chan struct{}, 1)}
	kind := *kinds[channelconfig.Solo]
	kind.Open = func(s consensus.Settings, _ consensus.Host) (consensus.Consenter, error) {
		return a, os.MkdirAll(s.Dir, 0o755)
	}
	solo := kinds[channelconfig.Solo]
	kinds[channelconfig.Solo] = &kind
	t.Cleanup(func() { kinds[channelconfig.Solo] = solo })
	c := newCluster(t, func(o *setup.Options) { o.Consenter, o.Orderers = "solo", 1 })
	c.start(0)
	request, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, ch, c.client, nil, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := streampb.NewStreamClient(c.conn(0)).Attend(ctx, grpc.WaitForReady(true))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&streampb.Said{Request: request}))
	said, err := stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 1, said.GetGroup().GetEpoch())
	return a, stream
}

// TestWhoAttendsARemovedOrdererIsSentAway: it would wait for what nobody tells.
func TestWhoAttendsARemovedOrdererIsSentAway(t *testing.T) {
	a, stream := attend(t)
	a.removed <- struct{}{}
	_, err := stream.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err), err)
	assert.ErrorContains(t, err, "not a consenter")
}

func TestAClientSaysNoMoreAtOnceThanAnOrderer(t *testing.T) {
	a, stream := attend(t)
	require.NoError(t, stream.Send(&streampb.Said{Messages: make([][]byte, protoutil.MostSaid)}))
	for range protoutil.MostSaid {
		assert.Empty(t, <-a.heard)
	}
	require.NoError(t, stream.Send(&streampb.Said{Messages: make([][]byte, protoutil.MostSaid+1)}))
	_, err := stream.Recv()
	assert.Equal(t, codes.InvalidArgument, status.Code(err), err)
	assert.Empty(t, a.heard)
}
