package peertest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// NoStreams are the HTTP/2 settings of a server that allows its clients no stream at all.
var NoStreams = []byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0}

// Says runs a server that accepts connections, says so much, and nothing more, until the test ends.
func Says(t testing.TB, what []byte) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = conn.Write(what)
		}
	}()
	return l.Addr().String()
}
