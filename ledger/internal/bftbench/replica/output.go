package replica

import (
	"context"
	"errors"
	"sync"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// errBehind ends a replica that has missed so much that it would have to fetch the state.
var errBehind = errors.New("the replica has fallen behind the others by more than a window: its part of the CPU is too small")

// errUndo ends a replica whose table would have to go back. No run has a primary that fails or lies.
var errUndo = errors.New("what was executed ahead of its decision would have to be undone")

// target is a connection that the output stage writes to. One thread of the stage has it.
type target struct {
	conn    *link.Conn
	queue   int
	machine auth.Party // machine is whose clients are behind it; 0: it is a replica
}

// parcel is something to send: a message of the core, or a body of a kind.
type parcel struct {
	to   *target
	core *spelling
	kind byte
	body []byte
}

// spelling is a message that is encoded and proven once for all of its receivers.
type spelling struct {
	message bft.Message
	once    sync.Once
	frame   []byte
}

// frame spells the message. The first thread of the output stage that needs it does.
func (r *Replica) frame(s *spelling) []byte {
	s.once.Do(func() {
		payload := r.protocol.Encode(s.message)
		var proof []byte
		if !r.protocol.Signed(s.message) {
			proof = r.suite.Links.Broadcast(payload)
		}
		w := &bft.Writer{Bytes: make([]byte, 1, len(payload)+len(proof)+16)}
		w.Bytes[0] = link.Core
		w.Chunk(payload)
		w.Chunk(proof)
		s.frame = w.Bytes
	})
	return s.frame
}

func (r *Replica) replica(id bft.ID) *target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replicas[id]
}

func (r *Replica) machine(number int) *target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machines[number]
}

// post gives a parcel to the thread that has its target. A replica that takes nothing must not hold up the worker: what
// it misses it asks for later.
func (r *Replica) post(p parcel) {
	if p.to == nil {
		return
	}
	if len(r.outs) == 0 {
		r.worker.inline.send(p)
		return
	}
	out := r.outs[p.to.queue%len(r.outs)]
	if p.to.machine != 0 {
		select { // clients always read
		case out <- stage.Wait(p):
		case <-r.stopped:
		}
		return
	}
	if !offer(out, p) {
		r.dropped.Add(1)
	}
}

// sender writes parcels to connections, many with one call.
type sender struct {
	r     *Replica
	mu    sync.Mutex // mu is for a worker without output threads, beside an execute thread
	dirty []*link.Conn
}

func newSender(r *Replica) *sender { return &sender{r: r} }

// mostGathered is how many bytes wait for a connection at most before they are written.
const mostGathered = 64 << 10

func (s *sender) send(p parcel) {
	var frame []byte
	if p.core != nil {
		frame = s.r.frame(p.core)
	} else {
		proof := s.r.suite.Links.Tag(p.to.machine, p.body)
		w := &bft.Writer{Bytes: make([]byte, 1, len(p.body)+len(proof)+16)}
		w.Bytes[0] = p.kind
		w.Chunk(p.body)
		w.Chunk(proof)
		frame = w.Bytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.to.conn.Waiting() == 0 {
		s.dirty = append(s.dirty, p.to.conn)
	}
	p.to.conn.Append(frame)
	if p.to.conn.Waiting() > mostGathered {
		_ = p.to.conn.Flush() // whoever is gone needs nothing
	}
}

// flush writes all that waits.
func (s *sender) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.dirty {
		_ = c.Flush() // whoever is gone needs nothing
	}
	s.dirty = s.dirty[:0]
}

func (r *Replica) runOutput(ctx context.Context, out chan stage.Waiting[parcel]) error {
	meter := r.meters[stage.Output]
	s := newSender(r)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-out:
			span := meter.Begin()
			s.send(stage.Take(&span, p))
			units := 1
			for n := min(len(out), burst); n > 0; n-- {
				s.send(stage.Take(&span, <-out))
				units++
			}
			s.flush()
			span.End(units)
		}
	}
}
