package serving

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/peer"
)

// Strangers bound what a server holds for connections over which nobody has shown yet who they are. gRPC takes as much of a
// message as one may have before anybody sees its signature, and of each stream what its window allows, so that many
// connections could fill the memory. What is bounded is all that has come over them. Beyond it the connection over which
// most has come is closed: who sends little is not kept out by who sends much.
type Strangers struct {
	least int64
	most  func() int

	mu     sync.Mutex
	open   map[string]*stranger // open has those that are no one's yet, by both ends' addresses
	bytes  int64                // bytes have come over all of these
	warned bool
}

// NewStrangers lets strangers send as many bytes in all as least or most says, whichever is more. Most is asked only where
// least does not do.
func NewStrangers(least int, most func() int) *Strangers {
	return &Strangers{least: int64(least), most: most, open: map[string]*stranger{}}
}

// Listener has whoever it accepts be a stranger.
func (s *Strangers) Listener(l net.Listener) net.Listener { return &strangersListener{l, s} }

// Knows has the connection of a call be a stranger's no more.
func (s *Strangers) Knows(ctx context.Context) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[key(from.Addr, from.LocalAddr)]; c != nil {
		s.remove(c)
	}
}

func key(remote, local net.Addr) string { return remote.String() + " " + local.String() }

// remove is called with the lock held.
func (s *Strangers) remove(c *stranger) {
	if s.open[c.address] == c {
		delete(s.open, c.address)
		s.bytes -= c.bytes
	}
	c.known.Store(true)
}

// came counts bytes, and closes what is too much.
func (s *Strangers) came(c *stranger, bytes int) {
	for _, most := range s.count(c, int64(bytes)) {
		go func() { _ = most.Conn.Close() }() // what is gathered for it may be written first
	}
}

func (s *Strangers) count(c *stranger, bytes int64) (over []*stranger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.known.Load() {
		return nil
	}
	c.bytes += bytes
	s.bytes += bytes
	for s.bytes > s.least && s.bytes > int64(s.most()) {
		most := c
		for _, other := range s.open {
			if other.bytes > most.bytes {
				most = other
			}
		}
		s.remove(most)
		over = append(over, most)
		if !s.warned {
			s.warned = true
			log.Warnf("more than %d bytes have come over connections of clients that are not known: that of %s, with %d bytes, is closed (said once)",
				max(s.least, int64(s.most())), most.RemoteAddr(), most.bytes)
		}
	}
	return over
}

type strangersListener struct {
	net.Listener
	of *Strangers
}

// Accept implements net.Listener.
func (l *strangersListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &stranger{Conn: raw, of: l.of, address: key(raw.RemoteAddr(), raw.LocalAddr())}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if dead := l.of.open[c.address]; dead != nil { // its client has reset it, and nobody has closed it yet
		l.of.remove(dead)
	}
	l.of.open[c.address] = c
	return c, nil
}

type stranger struct {
	net.Conn
	of      *Strangers
	address string
	known   atomic.Bool // known: nothing is counted
	bytes   int64       // bytes that have come; guarded by of.mu
}

// Read implements net.Conn.
func (c *stranger) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.known.Load() {
		c.of.came(c, n)
	}
	return n, err
}

// Close implements net.Conn.
func (c *stranger) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
