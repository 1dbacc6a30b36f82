package serving

import (
	"net"
	"sync"
)

// conns closes what it has accepted. A gRPC server that is stopped waits, for up to two minutes, for each client that has
// connected and said nothing: a health check or a scanner of ports is enough.
type conns struct {
	net.Listener
	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
}

// Accept implements net.Listener.
func (c *conns) Accept() (net.Conn, error) {
	raw, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = raw.Close() // nobody has seen it
		return nil, net.ErrClosed
	}
	accepted := &conn{raw, c}
	c.open[accepted] = struct{}{}
	return accepted, nil
}

// end closes all, and whatever is accepted from now on.
func (c *conns) end() {
	c.mu.Lock()
	open := c.open
	c.open, c.ended = nil, true
	c.mu.Unlock()
	for accepted := range open {
		_ = accepted.Close()
	}
}

type conn struct {
	net.Conn
	of *conns
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
