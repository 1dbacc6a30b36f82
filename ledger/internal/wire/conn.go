package wire

import (
	"net"
	"sync"
	"time"
)

const (
	// held is how many bytes may wait for a beat; more are written at once.
	held = 64 << 10
	// parting is how long a connection that closes may take to send what waits.
	parting = time.Second
)

// conn is a connection whose writes are paced. The failure of a held write is returned by the next one, as with the
// kernel's own buffers.
type conn struct {
	net.Conn
	pacer *Pacer

	mu      sync.Mutex
	waiting []byte
	listed  bool // with the pacer
	last    time.Time
	err     error
}

// Write sends b, now or at the next beat.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if len(c.waiting) == 0 && !c.listed {
		if now := time.Now(); now.Sub(c.last) >= c.pacer.gap {
			c.last = now
			return c.Conn.Write(b)
		}
	}
	c.waiting = append(c.waiting, b...)
	if len(c.waiting) >= held {
		return len(b), c.send()
	}
	if !c.listed {
		c.listed = true
		c.pacer.enlist(c)
	}
	return len(b), nil
}

// flush sends what waits: the beat has come.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = false
	_ = c.send() // kept in c.err
}

func (c *conn) send() error {
	if len(c.waiting) > 0 && c.err == nil {
		c.last = time.Now()
		_, c.err = c.Conn.Write(c.waiting)
	}
	c.waiting = c.waiting[:0]
	return c.err
}

// Close sends what waits, if nothing is being sent, and closes.
func (c *conn) Close() error {
	if c.mu.TryLock() {
		_ = c.SetWriteDeadline(time.Now().Add(parting))
		_ = c.send()
		c.mu.Unlock()
	}
	return c.Conn.Close()
}
