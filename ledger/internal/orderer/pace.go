package orderer

import (
	"errors"
	"sync"
	"time"
)

// slowByte is what a byte takes at 1 Mbit/s, the slowest link of orderers over which the largest transaction is waited for.
const slowByte = 8 * time.Microsecond

// errSlow is told of a source that is waited for no longer.
var errSlow = errors.New("it sends less than 1 Mbit/s of what it is asked for")

// pace ends the wait for what a source sends. One that lies may send a byte now and then, so that bytes alone are no
// progress: over the time that is granted to each, it has to send at 1 Mbit/s. Bytes count up to what the largest block has:
// more are none of it.
type pace struct {
	grace time.Duration // for what is no part of a block
	most  int           // bytes that count
	leave func()

	mu    sync.Mutex
	since time.Time
	bytes int
	timer *time.Timer
}

// newPace calls leave, once at least, where a source falls behind before stop.
func newPace(grace time.Duration, most int, leave func()) *pace {
	p := &pace{grace: grace, most: most, leave: leave, since: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(grace, p.look)
	return p
}

// heard counts bytes that have come.
func (p *pace) heard(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = min(p.bytes+bytes, p.most)
}

// again begins anew: what came was verified.
func (p *pace) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.bytes = time.Now(), 0
	p.timer.Reset(p.grace)
}

func (p *pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.grace + time.Duration(p.bytes)*slowByte - time.Since(p.since); left > 0 {
		p.timer.Reset(left)
	} else {
		p.leave()
	}
}

func (p *pace) stop() { p.timer.Stop() }
