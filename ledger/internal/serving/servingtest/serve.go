// Package servingtest serves gRPC in tests.
package servingtest

import (
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// Serve serves on loopback what is registered, until stop, at the latest until the test ends.
func Serve(t testing.TB, register func(*grpc.Server), options ...grpc.ServerOption) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(options...)
	register(server)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) { // it has not begun
			assert.NoError(t, err)
		}
	})
	stop = func() {
		server.Stop()
		serving.Wait()
	}
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}
