package serving

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

type counted struct {
	mem.BufferPool
	bytes atomic.Int64
}

func (c *counted) Get(length int) *[]byte {
	c.bytes.Add(int64(length))
	return c.BufferPool.Get(length)
}

// sink takes one envelope.
type sink struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	got chan *commonpb.Envelope
}

func (s sink) Broadcast(stream ordererpb.AtomicBroadcast_BroadcastServer) error {
	env, err := stream.Recv()
	s.got <- env
	return err
}

func TestAServerReceivesIntoOurBuffers(t *testing.T) {
	before := wire.Buffers
	pool := &counted{BufferPool: before}
	wire.Buffers = pool // the client has the one from before
	defer func() { wire.Buffers = before }()
	server := Server(Limits{MessageBytes: 1 << 20}, nil)
	got := make(chan *commonpb.Envelope, 1)
	ordererpb.RegisterAtomicBroadcastServer(server, sink{got: got})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	stream, err := ordererpb.NewAtomicBroadcastClient(conn).Broadcast(t.Context())
	require.NoError(t, err)
	const size = 33 << 10
	require.NoError(t, stream.Send(&commonpb.Envelope{Payload: bytes.Repeat([]byte{1}, size)}))
	assert.Len(t, (<-got).GetPayload(), size)
	assert.Greater(t, pool.bytes.Load(), int64(size), "frame by frame")
}

// TestAServerThatIsStoppedBeforeItServes ends in order: a node may be told to stop while it opens its ledgers.
func TestAServerThatIsStoppedBeforeItServes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := Server(Limits{MessageBytes: 1 << 20}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	server.Stop()
	assert.NoError(t, Serve(ctx, server, listener))
	assert.Error(t, Serve(t.Context(), Server(Limits{}, nil), listener), "the listener is closed")
}

// TestAClientThatSaysNothingHoldsUpNoEnd: to gRPC it has a day to say something.
func TestAClientThatSaysNothingHoldsUpNoEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := Server(Limits{MessageBytes: 1 << 20}, nil, grpc.ConnectionTimeout(24*time.Hour))
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	accepted := &telling{Listener: listener, accepted: make(chan struct{}, 1)}
	go func() { served <- Serve(ctx, server, accepted) }()
	silent, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	<-accepted.accepted
	cancel()
	select {
	case err := <-served:
		assert.NoError(t, err)
	case <-time.After(20 * time.Second): // far more than it takes
		t.Fatal("it does not end")
	}
}

// telling tells of what it has accepted when more is waited for: that is then being served.
type telling struct {
	net.Listener
	accepted chan struct{}
	asked    int
}

func (l *telling) Accept() (net.Conn, error) {
	if l.asked++; l.asked == 2 {
		l.accepted <- struct{}{}
	}
	return l.Listener.Accept()
}
