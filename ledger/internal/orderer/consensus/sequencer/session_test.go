package sequencer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/internal/sequencer/sequencertest"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// longest is far more than anything takes. All that it decides is that a test has failed.
const longest = 2 * time.Minute

// shared is a ledger that others look into while it is written.
type shared struct {
	ledger
	mu  sync.Mutex
	txs []string
}

func (s *shared) Apply(_ uint64, entries ...*streampb.LogEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range entries {
		for _, tx := range entry.Txs {
			s.txs = append(s.txs, string(tx))
		}
	}
	return nil
}

func (s *shared) has() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.txs...)
}

// startSequencer serves an empty log of the channel ch on loopback, until the test ends.
func startSequencer(t *testing.T) string {
	t.Helper()
	log, err := sequencer.Open(t.TempDir(), false)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, s := serving.Server(serving.Limits{MessageBytes: 1 << 20}, nil), sequencer.NewServer(map[string]*sequencer.Log{"ch": log})
	sequencerpb.RegisterSequencerServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, s.Run(ctx)) })
	running.Go(func() { assert.NoError(t, serving.Serve(ctx, server, listener)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		assert.NoError(t, log.Close())
	})
	return listener.Addr().String()
}

// dialer connects a facade for the n-th time, from 0 on.
type dialer func(n int) (net.Conn, error)

// runs has a facade take part until end, which the test waits for.
func runs(t *testing.T, host *shared, dial dialer) (n *Node, end func()) {
	t.Helper()
	var dialled atomic.Int64
	conn, err := grpc.NewClient("passthrough:///sequencer", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond}, MinConnectTimeout: time.Second}),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return dial(int(dialled.Add(1)) - 1) }))
	require.NoError(t, err)
	n = newNode("ch", conn, func() time.Duration { return time.Hour }, host)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(longest):
			assert.Fail(t, "the facade does not end")
		}
	})
	t.Cleanup(end)
	return n, end
}

// orders submits until a text is in the order, each time as another transaction, and gives the one that is. It may be called
// from any goroutine.
func orders(n *Node, text string) (tx string, err error) {
	for begun, try := time.Now(), 0; time.Since(begun) < longest; try++ {
		tx = fmt.Sprint(text, " ", try)
		settled := make(chan error, 2) // one more than may come
		if err = n.Submit(consensus.Proposal{Tx: []byte(tx), Settle: func(err error) { settled <- err }}); err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		err = <-settled
		if len(settled) > 0 {
			return "", fmt.Errorf("%s is settled twice, first with %v", tx, err)
		}
		if err == nil {
			return tx, nil
		}
	}
	return "", fmt.Errorf("%s is not ordered: %w", text, err)
}

// TestAFacadeComesToASequencerThatWasOutOfOrder, and ends at once while it is.
func TestAFacadeComesToASequencerThatWasOutOfOrder(t *testing.T) {
	for name, says := range map[string]string{
		"hangs up": "", "garbage": strings.Repeat("\x00\xff\x16\x03", 100), "HTTP/1": "HTTP/1.1 400 Bad Request\r\n\r\n", "silent": "silent",
		"half a frame": "\x00\x00\x06\x04\x00\x00\x00", "a frame too large": "\xff\xff\xff\x04\x00\x00\x00\x00\x00",
	} {
		bad := func(told chan<- struct{}) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				go func() { // what it is told
					for buf := make([]byte, 1<<10); ; {
						if _, err := theirs.Read(buf); err != nil {
							return
						}
					}
				}()
				if says != "silent" {
					_, _ = theirs.Write([]byte(says))
					_ = theirs.Close()
				}
				select {
				case told <- struct{}{}:
				default:
				}
			}()
			return ours, nil
		}
		t.Run(name, func(t *testing.T) {
			address, told := startSequencer(t), make(chan struct{}, 1)
			host := &shared{}
			n, _ := runs(t, host, func(k int) (net.Conn, error) {
				if k < 2 {
					return bad(told)
				}
				return net.Dial("tcp", address)
			})
			tx, err := orders(n, "a")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return len(host.has()) == 1 }, longest, time.Millisecond)
			assert.Equal(t, []string{tx}, host.has())
			<-told

			other, end := runs(t, &shared{}, func(int) (net.Conn, error) { return bad(told) })
			<-told
			require.ErrorIs(t, other.Submit(consensus.Proposal{}), ErrAway)
			end()
		})
	}
}

// mute is a sequencer whose connections stand while its calls wait for ever, as on a disk that hangs.
type mute struct {
	sequencerpb.UnimplementedSequencerServer
	reads  bool          // reads is whether it says where its log ends: at its beginning
	called chan struct{} // called has a value once a call waits
}

func (m *mute) wait(ctx context.Context) error {
	select {
	case m.called <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m *mute) Last(ctx context.Context, _ *sequencerpb.LastRequest) (*sequencerpb.LastResponse, error) {
	if m.reads {
		return &sequencerpb.LastResponse{}, nil
	}
	return nil, m.wait(ctx)
}

func (m *mute) Get(_ *sequencerpb.GetRequest, stream sequencerpb.Sequencer_GetServer) error {
	<-stream.Context().Done()
	return nil
}

func (m *mute) Order(stream sequencerpb.Sequencer_OrderServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return m.wait(stream.Context())
}

// TestAFacadeLeavesASequencerThatAnswersNoCall once it is restarted: what it was sent is settled then, as what may be ordered.
// Before its log is read a facade says at once that it is away.
func TestAFacadeLeavesASequencerThatAnswersNoCall(t *testing.T) {
	for name, reads := range map[string]bool{"none at all": false, "none that orders": true} {
		t.Run(name, func(t *testing.T) {
			hangs := &mute{reads: reads, called: make(chan struct{}, 1)}
			silent, stop := servingtest.Serve(t, func(s *grpc.Server) { sequencerpb.RegisterSequencerServer(s, hangs) })

			address, host := startSequencer(t), &shared{}
			n, _ := runs(t, host, func(k int) (net.Conn, error) {
				if k == 0 {
					return net.Dial("tcp", silent)
				}
				return net.Dial("tcp", address)
			})
			settled := make(chan error, 1)
			if reads {
				require.Eventually(t, func() bool {
					return n.Submit(consensus.Proposal{Tx: []byte("lost"), Settle: func(err error) { settled <- err }}) == nil
				}, longest, time.Millisecond)
				<-hangs.called
				assert.Empty(t, settled, "nobody knows yet")
			} else {
				<-hangs.called
				require.ErrorIs(t, n.Submit(consensus.Proposal{}), ErrAway)
			}
			stop()
			if reads {
				require.ErrorIs(t, <-settled, errUnanswered)
			}
			tx, err := orders(n, "a")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return len(host.has()) > 0 }, longest, time.Millisecond)
			assert.Equal(t, []string{tx}, host.has())
		})
	}
}

// TestAFacadeWhoseConnectionIsCutAnywhereGoesOn: each transaction is settled once, and what was told to be in the order is
// there once, for this facade and for another one, which orders beside it.
func TestAFacadeWhoseConnectionIsCutAnywhereGoesOn(t *testing.T) {
	long := strings.Repeat(".", 40) // all transactions together are longer than what comes before any cut
	for at := 1; at < 2000; at += 97 {
		address := startSequencer(t)
		cut, whole := &shared{}, &shared{}
		var dialled atomic.Int64
		one, endOne := runs(t, cut, func(k int) (net.Conn, error) {
			dialled.Add(1)
			conn, err := net.Dial("tcp", address)
			if err != nil || k > 3 {
				return conn, err
			}
			return &sequencertest.Cut{Conn: conn, Reads: at, Writes: sequencertest.Whole}, nil
		})
		two, endTwo := runs(t, whole, func(int) (net.Conn, error) { return net.Dial("tcp", address) })
		var told [2][]string
		var running sync.WaitGroup
		for i, n := range []*Node{one, two} {
			running.Go(func() {
				for k := range 30 {
					tx, err := orders(n, fmt.Sprint(i, " ", k, " ", long))
					if !assert.NoError(t, err) {
						return
					}
					told[i] = append(told[i], tx)
				}
			})
		}
		running.Wait()
		last, err := orders(two, "last")
		require.NoError(t, err)
		for _, host := range []*shared{cut, whole} {
			require.Eventually(t, func() bool { txs := host.has(); return len(txs) > 0 && txs[len(txs)-1] == last }, longest, time.Millisecond)
		}
		require.Greater(t, dialled.Load(), int64(1), "no connection was cut after %d bytes", at)
		endOne()
		endTwo()
		for _, n := range []*Node{one, two} {
			for _, queue := range []ops.Stood{n.intake.Stands(), n.asked.Stands(), n.read.Stands()} {
				require.Zero(t, queue.Length, "nothing is counted as waiting that was lost with a connection, after %d bytes", at)
				require.GreaterOrEqual(t, queue.Came, uint64(30))
				require.Positive(t, queue.Waited)
			}
		}
		require.Equal(t, whole.has(), cut.has(), "cut after %d bytes", at)
		times := map[string]int{}
		for _, tx := range whole.has() {
			times[tx]++
		}
		for _, tx := range append(told[0], told[1]...) {
			require.Equal(t, 1, times[tx], "%s, cut after %d bytes", tx, at)
		}
	}
}
