package simulate

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// replica is the pipeline of a real one, with the real core. Its work costs what the micro-benchmarks say.
type replica struct {
	w    *world
	id   bft.ID
	core bft.Core
	host *host

	inputs, batches, outputs    []*thread
	worker, execute, checkpoint *thread
	nextBatch                   int
	signs, checks               int // of the step that the core is at
	due                         bft.Time

	group     []stamp       // group is requests that do not fill a batch yet
	begun     time.Duration // begun is when the first of them came
	lingering bool
	wire      time.Duration // wire is when what was sent before has left
	pending   map[bft.ID]*parcelRun

	verified map[uint64]bool // verified are batches whose signatures were verified here, by number

	executed int64 // executed is the period of the quota in which it has executed last

	ahead   uint64                 // ahead is the last entry that was executed before it was decided
	answers map[uint64]bft.Message // answers are by batch: what the core tells its clients
}

// stamp is requests that were sent at one moment.
type stamp struct {
	sent  time.Duration
	count int
}

// parcelRun is frames to one receiver that go out with one call.
type parcelRun struct {
	frames []frame
	bytes  int
}

// frame is a message of the core, or clients' requests.
type frame struct {
	from     bft.ID
	message  bft.Message
	requests stamp
	reply    *batch
	answer   bft.Message // answer is of the core, with reply
	bytes    int
}

// threadsOf makes the threads of a stage; none: the worker has the work.
func (r *replica) threadsOf(n int, wake time.Duration) []*thread {
	all := make([]*thread, max(1, n))
	for i := range all {
		if all[i] = r.worker; n > 0 {
			all[i] = r.host.newThread(wake)
		}
	}
	return all
}

func (w *world) newReplica(id bft.ID) *replica {
	o, c := &w.options, &w.costs
	h := &host{engine: w.engine, free: o.Cores, speed: o.Speed, idle: c.Idle, quota: time.Duration(o.Quota * float64(o.Period)), period: o.Period}
	// Periods of replicas begin at different times.
	h.shift = time.Duration(id) * o.Period / time.Duration(w.run.Replicas)
	h.left = h.quota
	r := &replica{w: w, id: id, host: h, worker: h.newThread(c.Wake + c.Meter), pending: map[bft.ID]*parcelRun{}, verified: map[uint64]bool{}, answers: map[uint64]bft.Message{}}
	s := w.run.Stages
	// The worker and the output stage count what they find waiting as one; the others count each piece.
	r.inputs, r.batches, r.outputs = r.threadsOf(s.Input, c.Wake), r.threadsOf(s.Batch, c.Handoff), r.threadsOf(s.Output, c.Wake+c.Meter)
	r.execute, r.checkpoint = r.threadsOf(s.Execute, c.Wake)[0], r.threadsOf(s.Checkpoint, c.Wake)[0]
	r.core = w.protocol.New(w.run, id, simulated{r})
	return r
}

// stages are the threads by stage, those that the worker stands in for left out.
func (r *replica) stages() map[string][]*thread {
	all := map[string][]*thread{stage.Worker: {r.worker}}
	for name, threads := range map[string][]*thread{
		stage.Input: r.inputs, stage.Batch: r.batches, stage.Execute: {r.execute}, stage.Checkpoint: {r.checkpoint}, stage.Output: r.outputs,
	} {
		if threads[0] != r.worker {
			all[name] = threads
		}
	}
	return all
}

// arrive takes what one write of another has brought.
func (r *replica) arrive(run *parcelRun) {
	c := &r.w.costs
	first := c.Receive + scale(c.ReceiveByte, run.bytes)
	for _, f := range run.frames {
		at := 0 // the first thread is the clients'
		if n := len(r.inputs); f.message != nil && n > 1 && int(f.from) <= r.w.run.Replicas {
			at = 1 + int(f.from)%(n-1)
		}
		cost := first
		first = 0
		r.inputs[at].put(func() (time.Duration, func()) {
			if f.message != nil {
				return cost + c.Meter + c.Read, func() { r.route(f) }
			}
			return cost + c.Meter + time.Duration(f.requests.count)*c.Walk, func() { r.cut(f.requests) }
		})
	}
}

// cut makes groups of so many requests as a batch has.
func (r *replica) cut(s stamp) {
	for s.count > 0 {
		have := 0
		for _, one := range r.group {
			have += one.count
		}
		if have == 0 {
			r.begun = r.w.engine.now
		}
		taken := min(s.count, r.w.run.Requests()-have)
		r.group = append(r.group, stamp{s.sent, taken})
		s.count -= taken
		if have+taken == r.w.run.Requests() {
			r.assemble()
		}
	}
	if len(r.group) > 0 && !r.lingering {
		r.linger(r.w.run.Linger)
	}
}

// linger sends on a group whose time is up after a while. One that was begun meanwhile has its own time.
func (r *replica) linger(wait time.Duration) {
	r.lingering = true
	r.w.engine.after(wait, func() {
		r.lingering = false
		if len(r.group) == 0 {
			return
		}
		if left := r.begun + r.w.run.Linger - r.w.engine.now; left > 0 {
			r.linger(left)
			return
		}
		r.assemble()
	})
}

// assemble verifies a group's signatures, and submits it as a batch.
func (r *replica) assemble() {
	b := r.w.newBatch(r.group)
	r.group = nil
	c := &r.w.costs
	r.nextBatch++
	r.batches[r.nextBatch%len(r.batches)].put(func() (time.Duration, func()) {
		cost := c.Meter + time.Duration(b.requests)*(c.Verify+c.Gather) + scale(c.Copy, b.bytes)
		return cost, func() {
			r.step(bft.Submit{Tx: b.tx}, b.bytes)
		}
	})
}

// route brings a message to the worker, a proposal by way of the batch stage where it verifies clients' signatures.
func (r *replica) route(f frame) {
	proposed := r.w.protocol.Proposed(f.message)
	bytes := 0
	for _, tx := range proposed {
		bytes += r.w.batches[batchNumber(tx)].bytes
	}
	if len(proposed) > 0 && r.w.run.Check == plan.CheckAll {
		r.nextBatch++
		r.batches[r.nextBatch%len(r.batches)].put(func() (time.Duration, func()) {
			cost := r.w.costs.Meter
			for _, tx := range proposed {
				cost += r.check(r.w.batches[batchNumber(tx)])
			}
			return cost, func() { r.step(bft.Received{From: f.from, Message: f.message}, bytes) }
		})
		return
	}
	r.step(bft.Received{From: f.from, Message: f.message}, bytes)
}

// check is what it costs to verify a batch's signatures of clients, which a replica does once.
func (r *replica) check(b *batch) time.Duration {
	c := &r.w.costs
	if r.w.run.Auth == auth.None {
		return time.Duration(b.requests) * c.Walk
	}
	cost := scale(c.Hash, b.bytes)
	if !r.verified[b.number] {
		r.verified[b.number] = true
		cost += time.Duration(b.requests) * (c.Verify + c.Walk)
	}
	return cost
}

// step has the worker step the core; bytes are of the batches in the input, which the core hashes.
func (r *replica) step(in bft.Input, bytes int) {
	r.worker.put(func() (time.Duration, func()) {
		c := &r.w.costs
		cost, known := c.Step[kindOf(in)]
		if !known {
			r.w.fail(fmt.Errorf("the core's step %q has no cost: views change in this run", kindOf(in)))
		}
		if received, is := in.(bft.Received); is && !r.w.protocol.Signed(received.Message) {
			cost += c.Check
		}
		r.signs, r.checks = 0, 0
		e := r.core.Step(r.w.engine.now+1, in)
		cost += time.Duration(r.signs)*c.Broadcast + time.Duration(r.checks)*c.Check
		// A submitted batch is hashed as a transaction, as part of its entry, and when it is proposed and ordered.
		times := 1
		if _, is := in.(bft.Submit); is {
			times = 4
		}
		cost += scale(c.Hash, times*bytes)
		return cost, func() { r.effects(e) }
	})
}

func (r *replica) effects(e bft.Effects) {
	w := r.w
	if e.Fault != nil {
		w.fail(e.Fault)
	}
	if e.Fetch != nil {
		w.fail(errFetch)
	}
	var last bft.Message
	var first *bool
	for _, o := range e.Send {
		if o.Message != last {
			last, first = o.Message, new(bool)
		}
		r.post(o.To, frame{from: r.id, message: o.Message, bytes: w.sizeOf(o.Message)}, first)
	}
	for _, a := range e.Answer {
		if w.protocol.Certify != nil && len(a.Entry.Txs) > 0 {
			if number := batchNumber(a.Entry.Txs[0]); r.answers[number] == nil {
				r.answers[number] = a.Message
			}
		}
	}
	for _, o := range e.Ahead {
		r.ahead = o.Seq
		r.apply(o)
	}
	for _, o := range e.Apply {
		if o.Seq <= r.ahead {
			o.Entry = nil
		}
		r.apply(o)
	}
	if e.Deadline != 0 && e.Deadline != r.due {
		r.due = e.Deadline
		w.engine.after(max(0, e.Deadline-w.engine.now), func() {
			if r.due == e.Deadline {
				r.due = 0
				r.step(bft.Tick{}, 0)
			}
		})
	}
}

func (r *replica) apply(o bft.Ordered) {
	c := &r.w.costs
	r.execute.put(func() (time.Duration, func()) {
		cost, one := c.Meter, c.Execute
		if r.host.current != r.executed { // it has stood still meanwhile, and others have run
			r.executed, one = r.host.current, c.Resume
		}
		var done []*batch
		if o.Entry != nil {
			for _, tx := range o.Entry.Txs {
				b := r.w.batches[batchNumber(tx)]
				cost += time.Duration(b.requests)*one + scale(c.Hash, b.bytes)
				one = c.Execute
				done = append(done, b)
			}
		}
		return cost, func() {
			for _, b := range done {
				r.answer(b)
			}
			if o.Sync {
				r.checkpoint.put(func() (time.Duration, func()) {
					// One digest is of those of the interval's batches and of the state.
					return c.Meter + scale(c.Hash, sha256.Size*(r.w.run.Interval()+1)), func() { r.step(bft.Synced{Seq: o.Seq, Members: r.w.run.Group().Members}, 0) }
				})
			}
		}
	})
}

// answer tells the clients: a frame for each of their machines.
func (r *replica) answer(b *batch) {
	answer := r.answers[b.number]
	delete(r.answers, b.number)
	for m := range r.w.options.Machines {
		bytes := 64 + 12*b.requests/r.w.options.Machines
		r.post(r.w.clientOf(m), frame{from: r.id, reply: b, answer: answer, bytes: bytes}, new(bool))
	}
}

// post has the output stage send a frame. The first receiver's pays for spelling and proving it.
func (r *replica) post(to bft.ID, f frame, spelled *bool) {
	c := &r.w.costs
	r.outputs[int(to)%len(r.outputs)].put(func() (time.Duration, func()) {
		cost := scale(c.Copy, f.bytes)
		if !*spelled {
			*spelled = true
			switch {
			case f.reply != nil:
				cost += c.Tag + scale(c.TagByte, f.bytes) + c.Spell
			case r.w.protocol.Signed(f.message):
				cost += c.Spell + scale(c.Copy, f.bytes)
			default:
				cost += c.Spell + c.Broadcast
			}
		}
		if r.w.run.Delay > 0 || r.w.run.Bandwidth > 0 { // each frame waits on its own, and is written by itself
			cost += c.Await + c.Send + scale(c.SendByte, f.bytes)
			return cost, func() { r.transmit(to, &parcelRun{frames: []frame{f}, bytes: f.bytes}) }
		}
		run := r.pending[to]
		if run == nil { // what follows while this one waits to be written goes with it
			run = &parcelRun{}
			r.pending[to] = run
			cost += c.Send
			t := r.outputs[int(to)%len(r.outputs)]
			t.put(func() (time.Duration, func()) {
				delete(r.pending, to)
				return scale(c.SendByte, run.bytes), func() { r.transmit(to, run) }
			})
		}
		run.frames, run.bytes = append(run.frames, f), run.bytes+f.bytes
		return cost, func() {}
	})
}

// transmit puts bytes on the wire, one after the other, and has them arrive.
func (r *replica) transmit(to bft.ID, run *parcelRun) {
	w := r.w
	r.wire = max(r.wire, w.engine.now)
	if w.options.Bandwidth > 0 {
		r.wire += time.Duration(float64(run.bytes) / w.options.Bandwidth * float64(time.Second))
	}
	w.engine.after(r.wire-w.engine.now+w.options.Latency, func() {
		if int(to) > w.run.Replicas {
			for _, f := range run.frames {
				if f.reply != nil {
					w.reply(f)
				} else {
					w.certified(f.from, to, f.message)
				}
			}
		} else if other := w.replicas[to]; other != nil {
			other.arrive(run)
		}
	})
}

func scale(perByte float64, bytes int) time.Duration { return time.Duration(perByte * float64(bytes)) }

// simulated counts what a core asks for. All proofs are good.
type simulated struct{ r *replica }

// Sign implements bft.Oracle.
func (s simulated) Sign([]byte) []byte {
	s.r.signs++
	return nil
}

// Verify implements bft.Oracle.
func (s simulated) Verify(bft.ID, []byte, []byte) bool {
	s.r.checks++
	return true
}

// Check implements bft.Oracle: the batch stage has verified what it has to.
func (simulated) Check([]byte) (config, ok bool) { return false, true }

// Mark implements bft.Oracle.
func (simulated) Mark([]byte) bool { return false }

// Known implements bft.Oracle.
func (simulated) Known(bft.Digest) bool { return false }
