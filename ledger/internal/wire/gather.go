package wire

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// gathering is a connection whose writes go out together: a write waits until the process has nothing else to do at the
// moment, and may be joined by others meanwhile. A message on an idle node leaves microseconds
// later; on a busy one the answers to a crowd are one system call, and one wake-up of the receiver, in place of one
// each. gRPC does so by itself only for what is shorter than 1,000 bytes, which a transaction is not. That a write
// has failed is told by the next one, as with the kernel's own buffers.
type gathering struct {
	net.Conn

	mu      sync.Mutex
	taken   sync.Cond // waiting was, or never will be
	waiting []byte
	spare   []byte // the other buffer, while nothing is being written
	sending bool   // a goroutine takes what waits
	closing bool
	err     error
}

func gather(below net.Conn) net.Conn {
	c := &gathering{Conn: below}
	c.taken.L = &c.mu
	return c
}

// Write takes b; it waits while a receiver that is slow has much to read.
func (c *gathering) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) >= held && c.err == nil && !c.closing {
		c.taken.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closing:
		return 0, net.ErrClosed
	}
	c.waiting = append(c.waiting, b...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(b), nil
}

// send writes until nothing waits.
func (c *gathering) send() {
	runtime.Gosched() // goroutines that can run now may have something to add
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 && c.err == nil {
		out := c.waiting
		c.waiting, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		_, err := c.Conn.Write(out)
		c.mu.Lock()
		c.spare, c.err = out, err
		c.taken.Broadcast()
	}
	c.sending = false
	if c.closing {
		_ = c.Conn.Close() // the error has no receiver
	}
}

// SetWriteDeadline passes over one that has come already: crypto/tls sets it when it closes, against writes to come,
// and what was written before would be lost.
func (c *gathering) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close sends what waits, for a second at most, and closes.
func (c *gathering) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sending {
		c.err = net.ErrClosed
		return c.Conn.Close()
	}
	c.closing = true
	c.taken.Broadcast()
	return c.Conn.SetWriteDeadline(time.Now().Add(parting)) // send closes it
}
