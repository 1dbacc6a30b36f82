package orderer

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// hanging takes requests for blocks, and sends none.
type hanging struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	asked atomic.Int64
}

func (h *hanging) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	h.asked.Add(1)
	<-stream.Context().Done()
	return nil
}

// clusterWith has so many blocks at its first orderer. The second, which has them too, has ended, and the third has none.
func clusterWith(t *testing.T, blocks int) *testCluster {
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount = "block", 1 })
	c.start(0)
	stop := c.start(1)
	for i := range blocks {
		c.orderAt(0, fmt.Sprint("tx", i))
	}
	stop()
	return c
}

// TestCatchingUpLeavesAnOrdererThatSendsNothing for another one.
func TestCatchingUpLeavesAnOrdererThatSendsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const blocks = 30
	c := clusterWith(t, blocks)
	h := &hanging{}
	c.impersonate(1, h)

	behind := c.open(2)
	defer func() { require.NoError(t, behind.close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// The others are asked in random order, so this goes on until the one that hangs has been asked.
	for height := uint64(2); height <= blocks && h.asked.Load() == 0; height++ {
		require.NoError(t, behind.channels[ch].CatchUp(ctx, height))
		require.NoError(t, ctx.Err(), "an orderer that sends nothing is waited for")
		assert.GreaterOrEqual(t, behind.channels[ch].Height(), height)
	}
	assert.Positive(t, h.asked.Load())
	require.Error(t, behind.channels[ch].catchUpFrom(ctx, c.node(1).Address, behind.channels[ch].Height()+1))
	require.NoError(t, ctx.Err(), "one that is asked alone is waited for")
}

// TestOneThatTricklesWhileThereIsNoBlockKeepsNoneBack: its turn is not for a large block, so that it gets no longer.
func TestOneThatTricklesWhileThereIsNoBlockKeepsNoneBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	c := clusterWith(t, 1)
	c.impersonate(1, &hanging{}, grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Second})) // bytes, and no block
	node := c.openFollower(2)
	defer func() { require.NoError(t, node.close()) }()
	follower, trickles := node.channels[ch], c.node(1).Address
	require.NoError(t, follower.CatchUp(t.Context(), 2))
	require.Eventually(t, func() bool { // on a busy host the stream may end before the timer of the turn has run
		return strings.Contains(fmt.Sprint(follower.followOne(t.Context(), trickles)), "did not come within its turn")
	}, patience, time.Millisecond)
	require.Greater(t, follower.turns.of(trickles, follower.Height()), followTurn, "no other one is known to have no block")
	for range 2 {
		current, err := follower.followAll(t.Context())
		require.NoError(t, err)
		assert.True(t, current)
		assert.Equal(t, followTurn, follower.turns.of(trickles, follower.Height()))
	}
}

// trickling sends another orderer's blocks, five a second.
type trickling struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	c *testCluster
}

func (s *trickling) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	for number := uint64(1); ; number++ {
		blocks, err := s.c.blocks(0, ch, number, number)
		if err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		if err := stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: blocks[0]}}); err != nil {
			return err
		}
	}
}

// TestCatchingUpLeavesAnOrdererThatTrickles its blocks: the next one goes on from there.
func TestCatchingUpLeavesAnOrdererThatTrickles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const blocks = 100
	c := clusterWith(t, blocks)
	c.impersonate(1, &trickling{c: c})

	node := c.open(2)
	defer func() { require.NoError(t, node.close()) }()
	behind := node.channels[ch]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.Eventually(t, func() bool { // a busy host may send nothing for as long as that counts as silence
		return behind.catchUpFrom(ctx, c.node(1).Address, blocks+1) == nil
	}, patience, time.Millisecond, "it is not complained of")
	taken := behind.Height()
	assert.Greater(t, taken, uint64(1), "what it sent is kept")
	assert.Less(t, taken, uint64(blocks))
	require.NoError(t, behind.CatchUp(ctx, blocks+1))
	assert.EqualValues(t, blocks+1, behind.Height())
}

// slowly has what another orderer sends come from an orderer's address, at so many bytes a second.
func (c *testCluster) slowly(i, from, rate int) {
	c.t.Helper()
	listener, err := net.Listen("tcp", c.node(i).Address)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			source, err := net.Dial("tcp", c.node(from).Address)
			if err != nil {
				_ = conn.Close()
				continue
			}
			go func() { _, _ = io.Copy(source, conn); _ = source.Close() }()
			go func() {
				for err := error(nil); err == nil; time.Sleep(100 * time.Millisecond) {
					_, err = io.CopyN(conn, source, int64(rate/10))
				}
				_ = conn.Close()
			}()
		}
	}()
}

// TestABlockThatTakesLongerThanATurnIsFetched, though never within the first one.
func TestABlockThatTakesLongerThanATurnIsFetched(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount = "block", 1 })
	c.start(0)
	stop := c.start(1)
	c.orderAt(0, strings.Repeat("x", 1<<20)) // 6.4 s
	stop()
	c.slowly(1, 0, 160<<10)

	behind := c.open(2)
	defer func() { require.NoError(t, behind.close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	said := ""
	require.Eventually(t, func() bool {
		err := behind.channels[ch].catchUpFrom(ctx, c.node(1).Address, 2)
		said += fmt.Sprintln(err)
		return err == nil
	}, patience, time.Millisecond)
	assert.EqualValues(t, 2, behind.channels[ch].Height())
	assert.Contains(t, said, "block 1 did not come within its turn of 5s")
}

// TestATurnGetsLongerUntilABlockFits, and half as long at the next height, where the block may be as large.
func TestATurnGetsLongerUntilABlockFits(t *testing.T) {
	var own turns
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 160} {
		assert.Equal(t, want*time.Second, own.of("slow", 1))
		assert.Equal(t, 5*time.Second, own.of("another", 1))
		own.tooShort("slow", 10<<20+messageSlack)
	}
	for i, want := range []time.Duration{160, 80, 40, 20, 10, 5, 5} {
		height := 1 + 10*uint64(i) // a turn may bring several blocks
		assert.Equal(t, want*time.Second, own.of("slow", height))
		assert.Equal(t, 5*time.Second, own.of("another", height))
		assert.Equal(t, want*time.Second, own.of("slow", height), "the height is no new one")
	}
	own.tooShort("slow", 10<<20+messageSlack)
	assert.Equal(t, 10*time.Second, own.of("slow", 61))
}

// TestTheLongestTurnIsEnoughForTheLargestTransaction at 1 Mbit/s, whatever the channel allows, and not for much more: one
// that lies can keep this orderer from the others for as long.
func TestTheLongestTurnIsEnoughForTheLargestTransaction(t *testing.T) {
	for _, largest := range []int{1, 1 << 20, 10 << 20, 100 << 20, channelconfig.MostBytes(channelconfig.Raft)} {
		var own turns
		for range 100 {
			own.tooShort("slow", largest+messageSlack)
		}
		longest, needed := own.of("slow", 0), time.Duration(largest+messageSlack)*8*time.Microsecond
		assert.GreaterOrEqual(t, longest, needed, largest)
		assert.Less(t, longest, 2*needed, largest)
	}
}

// impersonate has another server answer at an orderer's address.
func (c *testCluster) impersonate(i int, answers ordererpb.AtomicBroadcastServer, more ...grpc.ServerOption) {
	c.t.Helper()
	cfg, err := nodeconfig.Load(c.config(i), nodeconfig.RoleOrderer)
	require.NoError(c.t, err)
	certificate, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
	require.NoError(c.t, err)
	listener, err := net.Listen("tcp", c.node(i).Address)
	require.NoError(c.t, err)
	server := grpc.NewServer(append(more, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second}))...) // it answers pings
	ordererpb.RegisterAtomicBroadcastServer(server, answers)
	go func() { _ = server.Serve(listener) }()
	c.t.Cleanup(server.Stop)
}
