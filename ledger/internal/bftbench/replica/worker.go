package replica

import (
	"context"
	"time"
	"unsafe"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// worker steps the core. One goroutine uses it.
type worker struct {
	r       *Replica
	core    bft.Core
	began   time.Time
	timer   *time.Timer
	due     bft.Time
	checked []byte // checked is the batch whose clients' signatures another stage has verified
	later   []bft.Input
	inline  *sender // inline sends, where the output stage has no threads
}

func newWorker(r *Replica) *worker {
	w := &worker{r: r, began: time.Now(), timer: time.NewTimer(time.Hour)}
	w.core = r.protocol.New(r.cfg.Run, r.cfg.ID, oracle{w})
	if r.cfg.Run.Stages.Output == 0 {
		w.inline = newSender(r)
	}
	return w
}

// burst is how many tasks the worker takes between two looks at its other queues.
const burst = 64

func (w *worker) run(ctx context.Context) error {
	meter := w.r.meters[stage.Worker]
	if err := w.step(ctx, bft.Tick{}); err != nil {
		return err
	}
	for {
		var t stage.Waiting[task]
		var p stage.Waiting[point]
		is, timed := false, false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case t = <-w.r.work:
			is = true
		case p = <-w.r.points:
		case <-w.timer.C:
			timed = true
		}
		span := meter.Begin()
		var err error
		units := 1
		switch {
		case timed:
			w.due = 0
			err = w.step(ctx, bft.Tick{})
		case is:
			err = w.take(ctx, stage.Take(&span, t))
			for n := min(len(w.r.work), burst); n > 0 && err == nil; n-- {
				err = w.take(ctx, stage.Take(&span, <-w.r.work))
				units++
			}
		default:
			err = w.step(ctx, w.r.vouch(stage.Take(&span, p)))
		}
		if w.inline != nil {
			w.inline.flush()
		}
		span.End(units)
		if err != nil {
			return err
		}
	}
}

// take does what no other stage does of a task, and steps the core. It never waits for the batch stage, whose threads may
// wait for the worker.
func (w *worker) take(ctx context.Context, t task) error {
	if t.frame != nil {
		for _, ready := range w.r.decode(t.frame, t.from) {
			if w.r.batchFirst(ready) && offer(w.r.batches, ready) {
				continue
			}
			if err := w.take(ctx, ready); err != nil {
				return err
			}
		}
		return nil
	}
	if t.group != nil {
		t = w.r.prepare(t)
	}
	switch {
	case t.message != nil:
		if !w.r.protocol.Signed(t.message) && !w.r.suite.Links.VerifyBroadcast(auth.Party(t.from), t.payload, t.proof) {
			w.r.refused.Add(1)
			return nil
		}
		if t.checked {
			w.checked = w.r.protocol.Proposed(t.message)[0]
		}
		return w.step(ctx, bft.Received{From: t.from, Message: t.message})
	case t.batch != nil:
		w.checked = t.batch
		return w.step(ctx, bft.Submit{Tx: t.batch})
	}
	return nil
}

// step steps the core, and what it leads to in this goroutine.
func (w *worker) step(ctx context.Context, in bft.Input) error {
	for {
		e := w.core.Step(time.Since(w.began)+1, in)
		w.checked = nil
		if e.Fault != nil {
			return e.Fault
		}
		if e.Fetch != nil {
			return errBehind
		}
		if e.Undo != nil {
			return errUndo
		}
		w.send(e.Send)
		for _, o := range e.Ahead {
			w.apply(ctx, o)
		}
		for _, o := range e.Apply {
			w.apply(ctx, o)
		}
		if e.Deadline != 0 && e.Deadline != w.due {
			w.due = e.Deadline
			w.timer.Reset(max(0, e.Deadline-time.Since(w.began)))
		}
		if len(w.later) == 0 {
			return nil
		}
		in, w.later = w.later[0], w.later[1:]
	}
}

func (w *worker) apply(ctx context.Context, o bft.Ordered) {
	if w.r.cfg.Run.Stages.Execute > 0 {
		put(ctx, w.r.execs, o)
		return
	}
	p, err := w.r.executor.execute(o)
	if err != nil {
		w.r.fail(err)
	}
	if p != nil {
		w.r.sync(ctx, *p, func(in bft.Input) { w.later = append(w.later, in) })
	}
}

// send puts a message once for all of its receivers into the queues of the output stage.
func (w *worker) send(out []bft.Outgoing) {
	var last *spelling
	for _, o := range out {
		if last == nil || last.message != o.Message {
			last = &spelling{message: o.Message}
		}
		w.r.post(parcel{to: w.r.replica(o.To), core: last})
	}
}

// oracle answers the core. What replicas sign of statements is proven as the links are.
type oracle struct{ w *worker }

// Sign implements bft.Oracle.
func (o oracle) Sign(data []byte) []byte { return o.w.r.suite.Links.Broadcast(data) }

// Verify implements bft.Oracle.
func (o oracle) Verify(by bft.ID, data, signature []byte) bool {
	return o.w.r.suite.Links.VerifyBroadcast(auth.Party(by), data, signature)
}

// Check implements bft.Oracle.
func (o oracle) Check(tx []byte) (config, ok bool) {
	if len(o.w.checked) > 0 && unsafe.SliceData(o.w.checked) == unsafe.SliceData(tx) || !o.w.r.checks() {
		return false, true
	}
	return false, ycsb.Check(tx, o.w.r.suite.Requests)
}

// Mark implements bft.Oracle.
func (oracle) Mark([]byte) bool { return false }

// Known implements bft.Oracle. The table of clients' last numbers keeps what is ordered twice from being executed twice.
func (oracle) Known(bft.Digest) bool { return false }
