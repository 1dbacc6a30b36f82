package probe_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

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

// serve has a node and a connection to it in this bubble of synctest: all waits are of its clock.
func serve(t *testing.T) (*frozen, *grpc.ClientConn) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	f := &frozen{Listener: l}
	server := grpc.NewServer() // it knows no service: that is an answer, too
	go func() { _ = server.Serve(f) }()
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
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
	synctest.Test(t, func(t *testing.T) {
		node, conn := serve(t)
		var w probe.Watch
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context(), conn, always) }()
		select {
		case err := <-ended:
			t.Fatalf("a node that runs but says nothing: %v", err)
		case <-time.After(4 * probe.Interval):
		}
		node.freeze(true)
		begun := time.Now()
		require.ErrorIs(t, <-ended, probe.ErrSilent)
		assert.LessOrEqual(t, time.Since(begun), 3*time.Second)
	})
}

func TestSilenceIsNoMatterWhereNothingIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, conn := serve(t)
		node.freeze(true)
		ctx, cancel := context.WithCancel(t.Context())
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
	})
}
