package simulate

import (
	"context"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// drill is a group of replicas without proofs that agrees on batches. It times what each core is given, by the wall clock:
// a look at a thread's CPU time takes longer than most of these steps.
type drill struct {
	run      plan.Run
	protocol protocol.Protocol
	cores    []bft.Core
	due      []bft.Time // due is when a core is to be stepped though nothing has come; 0: never
	queue    fifo[delivery]
	began    time.Time
	passed   time.Duration                          // passed is by how much the cores' clock is ahead of this host's
	answers  map[bft.ID]bft.Message                 // answers are what replicas tell the clients of the present batch
	lost     func(from bft.ID, o bft.Outgoing) bool // lost is what does not arrive; nil: all does

	found         map[string][]time.Duration
	spells, reads []time.Duration
}

// delivery is something that a core is given.
type delivery struct {
	to bft.ID
	in bft.Input
}

// measureCore takes the mean of what each kind of step has taken. The longest, which others have interrupted, do not count.
func measureCore(ctx context.Context, run plan.Run) (Core, error) {
	p, err := protocol.Find(run)
	if err != nil {
		return Core{}, err
	}
	entries := max(100, 2000/run.Replicas)
	interval := min(run.Interval(), entries)
	run.Checkpoint = interval * run.Batch
	d := &drill{run: run, protocol: p, due: make([]bft.Time, run.Replicas), found: map[string][]time.Duration{}, began: time.Now()}
	for i := range run.Replicas {
		d.cores = append(d.cores, p.New(run, bft.ID(i+1), noProofs{}))
	}
	before := allocated()
	if err := d.perform(ctx, (entries+interval-1)/interval*interval); err != nil {
		return Core{}, err
	}
	c := Core{Step: map[string]time.Duration{}}
	steps := len(d.spells) + len(d.reads)
	for _, times := range d.found {
		steps += len(times)
	}
	c.Bytes = int(allocated()-before) / steps
	for kind, times := range d.found {
		c.Step[kind] = typical(times)
	}
	c.Spell, c.Read = typical(d.spells), typical(d.reads)
	return c, nil
}

// certified is of how many batches one has a certificate that clients have made, where they make any.
const certified = 10

// perform has the group agree on batches. The last replica is late for the end of an interval, and misses a proposal
// afterwards: the others go on without it, and have it catch up.
func (d *drill) perform(ctx context.Context, entries int) error {
	for id := range d.cores {
		if err := d.give(bft.ID(id+1), bft.Tick{}); err != nil {
			return err
		}
	}
	last := bft.ID(d.run.Replicas)
	proposed := func(o bft.Outgoing) bool { return o.To == last && len(d.protocol.Proposed(o.Message)) > 0 }
	for number := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		spoil(ownCache)
		if number == entries-1 {
			d.lost = func(from bft.ID, o bft.Outgoing) bool { return from == last || o.To == last && !proposed(o) }
		}
		if err := d.order(uint64(number)); err != nil {
			return err
		}
	}
	if err := d.pass(time.Second); err != nil { // replicas that settle wait for all no longer
		return err
	}
	d.lost = nil
	if err := d.pass(statuses); err != nil {
		return err
	}
	d.lost = func(_ bft.ID, o bft.Outgoing) bool { return proposed(o) }
	if err := d.order(uint64(entries)); err != nil {
		return err
	}
	d.lost = nil
	return d.pass(statuses)
}

// statuses is how long it takes until replicas have told each other twice where they stand.
const statuses = 8 * time.Second

// order has the group agree on a batch, and clients show a certificate of some.
func (d *drill) order(number uint64) error {
	d.answers = map[bft.ID]bft.Message{}
	if err := d.give(1, bft.Submit{Tx: fakeBatch(number)}); err != nil {
		return err
	}
	if d.protocol.Certify == nil || number%certified > 0 {
		return nil
	}
	m := d.protocol.Certify(d.run.Group(), d.answers)
	for id := range d.cores {
		if err := d.give(bft.ID(id+1), bft.Received{From: bft.ID(d.run.Replicas + 1), Message: m}); err != nil {
			return err
		}
	}
	return nil
}

func (d *drill) now() bft.Time { return time.Since(d.began) + d.passed + 1 }

// pass lets time go by.
func (d *drill) pass(wait time.Duration) error {
	for end := d.now() + wait; ; {
		next := -1
		for i, at := range d.due {
			if at != 0 && at <= end && (next < 0 || at < d.due[next]) {
				next = i
			}
		}
		if next < 0 {
			d.passed += max(0, end-d.now())
			return nil
		}
		d.passed += max(0, d.due[next]-d.now())
		if err := d.give(bft.ID(next+1), bft.Tick{}); err != nil {
			return err
		}
	}
}

// give steps a core, and others with all that follows.
func (d *drill) give(to bft.ID, in bft.Input) error {
	d.queue.put(delivery{to, in})
	for d.queue.len() > 0 {
		if err := d.step(d.queue.take()); err != nil {
			return err
		}
	}
	return nil
}

func (d *drill) step(next delivery) error {
	kind := kindOf(next.in)
	now, at := d.now(), time.Now()
	e := d.cores[next.to-1].Step(now, next.in)
	d.found[kind] = append(d.found[kind], time.Since(at))
	if e.Fault != nil {
		return e.Fault
	}
	d.due[next.to-1] = e.Deadline
	var last bft.Message
	for _, o := range e.Send {
		if o.Message != last && kind != "submit" {
			at := time.Now()
			raw := d.protocol.Encode(o.Message)
			between := time.Now()
			if _, err := d.protocol.Decode(raw); err != nil {
				return err
			}
			d.spells, d.reads = append(d.spells, between.Sub(at)), append(d.reads, time.Since(between))
		}
		last = o.Message
		if int(o.To) <= d.run.Replicas && (d.lost == nil || !d.lost(next.to, o)) { // the others are clients
			d.queue.put(delivery{o.To, bft.Received{From: next.to, Message: o.Message}})
		}
	}
	for _, a := range e.Answer {
		d.answers[next.to] = a.Message
	}
	for _, o := range e.Apply {
		if o.Sync {
			d.queue.put(delivery{next.to, bft.Synced{Seq: o.Seq, Members: d.run.Group().Members}})
		}
	}
	return nil
}

// kindOf names an input as Costs.Step does.
func kindOf(in bft.Input) string {
	switch in := in.(type) {
	case bft.Submit:
		return "submit"
	case bft.Received:
		return in.Message.Kind()
	case bft.Synced:
		return "synced"
	}
	return "tick"
}

// noProofs believes everything.
type noProofs struct{}

func (noProofs) Sign([]byte) []byte                 { return nil }
func (noProofs) Verify(bft.ID, []byte, []byte) bool { return true }
func (noProofs) Check([]byte) (config, ok bool)     { return false, true }
func (noProofs) Mark([]byte) bool                   { return false }
func (noProofs) Known(bft.Digest) bool              { return false }
