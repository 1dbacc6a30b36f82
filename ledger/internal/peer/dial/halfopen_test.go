package dial

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// cutConn is a connection over a network that begins to drop all packets.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cutConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.cut.Load() {
			return n, err
		}
	}
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestAHalfOpenConnectionEnds, though only the node would have something to say: by the clock of a bubble.
func TestAHalfOpenConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 16)
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		go func() { _ = server.Serve(listener) }()
		defer server.Stop()
		var cut atomic.Bool
		conn, err := Open(Target{Address: "passthrough:///node"}, Own{}, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			made, err := listener.DialContext(ctx)
			return &cutConn{made, &cut}, err
		}))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		cut.Store(true)
		since := time.Now()
		_, err = stream.Recv()
		assert.Equal(t, codes.Unavailable, status.Code(err), err)
		assert.LessOrEqual(t, time.Since(since), 80*time.Second, "as CHANGELOG.md says")
	})
}
