package replica

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// accept takes connections, each with a goroutine that reads it. So many decode at once as the stage has threads.
func (r *Replica) accept(ctx context.Context) error {
	for {
		raw, err := r.listener.Accept()
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		if r.server != nil {
			raw = tls.Server(raw, r.server)
		}
		go r.serve(ctx, raw)
	}
}

func (r *Replica) serve(ctx context.Context, raw net.Conn) {
	c := link.New(raw, r.shape)
	r.mu.Lock()
	r.conns = append(r.conns, c)
	r.mu.Unlock()
	defer func() { _ = c.Close() }()
	hello, err := c.Next()
	if err != nil || hello[0] != link.Hello {
		return
	}
	reader := bft.NewReader(hello[1:])
	party := auth.Party(reader.Uint())
	if reader.Err() != nil {
		return
	}
	from := bft.ID(party)
	if first := auth.Machine(0); party >= first {
		from = 0
		number := int(party - first)
		r.mu.Lock()
		r.machines[number] = &target{conn: c, queue: int(number), machine: party}
		r.mu.Unlock()
	}
	for {
		frame, err := c.Next()
		if err != nil {
			return
		}
		if r.cfg.Run.Stages.Input == 0 {
			put(ctx, r.work, task{frame: frame, from: from})
			continue
		}
		r.tokens <- struct{}{}
		span := r.meters[stage.Input].Begin()
		ready := r.decode(frame, from)
		span.End(1)
		<-r.tokens
		for _, t := range ready {
			r.route(ctx, t)
		}
	}
}

// decode reads a frame. Transactions of clients become tasks as soon as they fill a batch.
func (r *Replica) decode(frame []byte, from bft.ID) []task {
	switch {
	case frame[0] == link.Requests && from == 0:
		return r.cutter.add(frame[1:])
	case frame[0] == link.Core && from != 0:
		reader := bft.NewReader(frame[1:])
		t := task{from: from, payload: reader.Chunk(), proof: reader.Chunk()}
		if reader.Err() != nil {
			break
		}
		var err error
		if t.message, err = r.protocol.Decode(t.payload); err != nil {
			break
		}
		return []task{t}
	}
	r.refused.Add(1)
	return nil
}

// route brings a task to the stage that is next.
func (r *Replica) route(ctx context.Context, t task) {
	if r.batchFirst(t) {
		put(ctx, r.batches, t)
		return
	}
	put(ctx, r.work, t)
}

// batchFirst reports whether the batch stage is next: signatures of clients are its work, where it has threads.
func (r *Replica) batchFirst(t task) bool {
	return r.cfg.Run.Stages.Batch > 0 && (t.group != nil || r.checks() && t.message != nil && len(r.protocol.Proposed(t.message)) > 0)
}

// checks reports whether this replica verifies the clients' signatures of proposals.
func (r *Replica) checks() bool { return r.cfg.Run.Check == plan.CheckAll }

// cutter makes groups of so many transactions as a batch has, across the frames and machines that they come from.
type cutter struct {
	r       *Replica
	mu      sync.Mutex
	group   []ycsb.Signed
	begun   time.Time
	kick    chan struct{}
	waiting bool
}

func (c *cutter) init(r *Replica) { c.r, c.kick = r, make(chan struct{}, 1) }

func (c *cutter) add(frame []byte) (full []task) {
	size := c.r.cfg.Run.Requests()
	reader := bft.NewReader(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		t := ycsb.ReadSigned(reader)
		if t.Body == nil {
			break
		}
		if c.group == nil {
			c.group, c.begun = make([]ycsb.Signed, 0, size), time.Now()
		}
		if c.group = append(c.group, t); len(c.group) == size {
			full = append(full, task{group: c.group})
			c.group = nil
		}
	}
	if c.group != nil && !c.waiting {
		c.waiting = true
		c.kick <- struct{}{}
	}
	return full
}

// run sends on what has waited for its time.
func (c *cutter) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.kick:
		}
		for wait := c.r.cfg.Run.Linger; wait > 0; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
			var due []ycsb.Signed
			wait, due = c.due()
			if due != nil {
				c.r.route(ctx, task{group: due})
			}
		}
	}
}

// due takes a group whose time is up, or says how long to wait for the next.
func (c *cutter) due() (wait time.Duration, group []ycsb.Signed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group != nil {
		if wait = c.r.cfg.Run.Linger - time.Since(c.begun); wait > 0 {
			return wait, nil
		}
		group, c.group = c.group, nil
	}
	c.waiting = false
	return 0, group
}

// runBatch verifies what clients have signed, and makes batches.
func (r *Replica) runBatch(ctx context.Context) error {
	// A batch takes milliseconds: it keeps its thread, so that its CPU time is known.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case waiting := <-r.batches:
			span := r.meters[stage.Batch].Begin()
			t := r.prepare(stage.Take(&span, waiting))
			span.End(1)
			put(ctx, r.work, t)
		}
	}
}

// prepare verifies the signatures of clients in a task. A proposal with a wrong one goes on unchecked: the core asks
// again, and refuses it.
func (r *Replica) prepare(t task) task {
	if t.group == nil {
		t.checked = true
		for _, batch := range r.protocol.Proposed(t.message) {
			t.checked = t.checked && r.good(batch)
		}
		return t
	}
	good := t.group[:0]
	for _, one := range t.group {
		if ycsb.CheckOne(one, r.suite.Requests) {
			good = append(good, one)
		} else {
			r.refused.Add(1)
		}
	}
	t.group = nil
	if len(good) > 0 {
		t.batch, t.checked = ycsb.Batch(good, r.nextBatch()), true
	}
	return t
}

// good verifies a batch's signatures of clients, once.
func (r *Replica) good(batch []byte) bool {
	if r.cfg.Run.Auth == auth.None { // a digest takes longer
		return ycsb.Check(batch, r.suite.Requests)
	}
	digest := bft.TxDigest(batch)
	if r.verified.has(digest) {
		return true
	}
	if !ycsb.Check(batch, r.suite.Requests) {
		return false
	}
	r.verified.add(digest)
	return true
}

// nextBatch makes batches of the same transactions differ.
func (r *Replica) nextBatch() uint64 { return uint64(r.batched.Add(1))*64 + uint64(r.cfg.ID) }
