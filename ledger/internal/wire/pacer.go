// Package wire gathers what a process writes to its connections, and spaces it, as network cards do with their
// interrupts.
package wire

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Pacer gathers the writes of a process's connections. A connection that has been silent for a gap is written to
// at once. What follows sooner waits for the process's next beat, a gap after the one before, and goes out in one
// piece with everything else that waits. On hosts where many processes share few cores most of the CPU that a
// message costs is the wake-up of its receiver; the price is up to a gap of latency a hop, under load alone.
//
// Without a gap writes are only gathered (gathering). A nil Pacer leaves connections as they are.
type Pacer struct {
	gap time.Duration

	mu      sync.Mutex
	waiting []*conn
	armed   bool
	beat    time.Time // the last one
}

// New makes a pacer; with a gap of 0 or less one that only gathers.
func New(gap time.Duration) *Pacer { return &Pacer{gap: gap} }

// conn takes a connection over.
func (p *Pacer) conn(below net.Conn) net.Conn {
	if p.gap <= 0 {
		return gather(below)
	}
	return &conn{Conn: below, pacer: p}
}

// Listener has the connections that l accepts paced.
func (p *Pacer) Listener(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return &listener{Listener: l, pacer: p}
}

// Dialer is the option that has a client's connections paced.
func (p *Pacer) Dialer() grpc.DialOption {
	if p == nil {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return p.conn(c), nil
	})
}

// enlist has c flushed at the next beat.
func (p *Pacer) enlist(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, c)
	if !p.armed {
		p.armed = true
		time.AfterFunc(p.gap-time.Since(p.beat), p.flush)
	}
}

func (p *Pacer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat, p.armed = time.Now(), false
	for _, c := range p.waiting {
		go c.flush() // a receiver that does not read must not hold up the others
	}
	clear(p.waiting)
	p.waiting = p.waiting[:0]
}

type listener struct {
	net.Listener
	pacer *Pacer
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.pacer.conn(c), nil
}
