package serving

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/peer"
)

// visit gives both ends of a connection.
func visit(t *testing.T, listener net.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	server, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// send has so many bytes arrive.
func send(t *testing.T, client, server net.Conn, bytes int) {
	t.Helper()
	_, err := client.Write(make([]byte, bytes))
	require.NoError(t, err)
	_, err = io.ReadFull(server, make([]byte, bytes))
	require.NoError(t, err)
}

// isClosed reports whether a server's end is.
func isClosed(server net.Conn) bool {
	_, err := server.Write([]byte{0})
	return err != nil
}

// TestWhatStrangersSendIsBounded over all of their connections, and the one that has sent most is left.
func TestWhatStrangersSendIsBounded(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	most := 1000
	s := NewStrangers(800, func() int { return most })
	listener := s.Listener(raw)
	known, knownTo := visit(t, listener)
	much, muchTo := visit(t, listener)
	little, littleTo := visit(t, listener)
	send(t, known, knownTo, 700)
	s.Knows(peer.NewContext(t.Context(), &peer.Peer{Addr: knownTo.RemoteAddr(), LocalAddr: knownTo.LocalAddr()}))
	send(t, known, knownTo, 5000)
	assert.Zero(t, s.bytes, "what a known one has sent counts no more")

	send(t, much, muchTo, 600)
	send(t, little, littleTo, 400)
	assert.False(t, isClosed(muchTo))
	send(t, little, littleTo, 1)
	require.Eventually(t, func() bool { return isClosed(muchTo) }, time.Minute, time.Millisecond)
	assert.False(t, isClosed(littleTo))
	assert.False(t, isClosed(knownTo))
	assert.EqualValues(t, 401, s.bytes)

	most = 0
	send(t, little, littleTo, 399)
	assert.False(t, isClosed(littleTo), "least holds where most is less")
	require.NoError(t, littleTo.Close())
	assert.Zero(t, s.bytes, "a connection that has ended holds nothing")
	assert.Empty(t, s.open)
	s.Knows(context.Background())
}

// again accepts connections that all have one address.
type again struct{ net.Listener }

func (again) Accept() (net.Conn, error) {
	c, _ := net.Pipe()
	return c, nil
}

// TestAConnectionTakesThePlaceOfADeadOne from the same port, with what has come over it.
func TestAConnectionTakesThePlaceOfADeadOne(t *testing.T) {
	s := NewStrangers(1000, func() int { return 0 })
	listener := s.Listener(again{})
	dead, err := listener.Accept()
	require.NoError(t, err)
	s.came(dead.(*stranger), 600)
	next, err := listener.Accept()
	require.NoError(t, err)
	assert.Zero(t, s.bytes)
	s.came(next.(*stranger), 700)
	require.NoError(t, dead.Close())
	assert.EqualValues(t, 700, s.bytes)
	require.NoError(t, next.Close())
	assert.Zero(t, s.bytes)
}

// TestOneAddressOfAClientIsTwoOfTheServers: a connection to another address of this host is another connection.
func TestOneAddressOfAClientIsTwoOfTheServers(t *testing.T) {
	s := NewStrangers(1000, func() int { return 0 })
	client := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 5000}
	listener := s.Listener(&from{client: client})
	first, err := listener.Accept()
	require.NoError(t, err)
	second, err := listener.Accept()
	require.NoError(t, err)
	s.came(first.(*stranger), 600)
	s.came(second.(*stranger), 300)
	assert.EqualValues(t, 900, s.bytes)
	s.Knows(peer.NewContext(t.Context(), &peer.Peer{Addr: client, LocalAddr: second.LocalAddr()}))
	assert.EqualValues(t, 600, s.bytes)
}

// from accepts connections of one client's address and port, each to another address of the server.
type from struct {
	net.Listener
	client net.Addr
	count  byte
}

func (f *from) Accept() (net.Conn, error) {
	c, _ := net.Pipe()
	f.count++
	return &between{c, f.client, &net.TCPAddr{IP: net.IPv4(10, 0, 0, f.count), Port: 7050}}, nil
}

type between struct {
	net.Conn
	remote, local net.Addr
}

func (b *between) RemoteAddr() net.Addr { return b.remote }
func (b *between) LocalAddr() net.Addr  { return b.local }
