package probe_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qioi/qioi/ledger/internal/probe"
)

// frozen is a listener whose connections can stop reading, as those of a stopped process do.
type frozen struct {
	net.Listener
	mu      sync.Mutex
	stopped bool
}

func (f *frozen) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	return &frozenConn{Conn: conn, listener: f}, err
}

func (f *frozen) freeze(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = on
}

func (f *frozen) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

type frozenConn struct {
	net.Conn
	listener *frozen
}

// Read gives what came before the node froze, and nothing of what came later until it runs again.
func (c *frozenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for c.listener.isFrozen() {
		time.Sleep(time.Millisecond)
	}
	return n, err
}

func serve(t *testing.T) (*frozen, *grpc.ClientConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &frozen{Listener: l}
	server := grpc.NewServer() // it knows no service: that is an answer, too
	go func() { _ = server.Serve(f) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		f.freeze(false)
		_ = conn.Close()
		server.Stop()
	})
	return f, conn
}

func always() bool { return true }

func TestAFrozenNodeIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	node, conn := serve(t)
	var w probe.Watch
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background(), conn, always) }()
	select {
	case err := <-ended:
		t.Fatalf("a node that runs but says nothing: %v", err)
	case <-time.After(4 * probe.Interval):
	}
	node.freeze(true)
	assert.ErrorIs(t, <-ended, probe.ErrSilent)
}

func TestSilenceIsNoMatterWhereNothingIsExpected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	node, conn := serve(t)
	node.freeze(true)
	ctx, cancel := context.WithCancel(context.Background())
	var w probe.Watch
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, conn, func() bool { return false }) }()
	talking := make(chan error, 1)
	var other probe.Watch
	go func() { talking <- other.Run(ctx, conn, always) }()
	for range 100 { // what is heard on the stream itself is proof enough
		other.Heard()
		time.Sleep(probe.Interval / 25)
	}
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-talking)
}
