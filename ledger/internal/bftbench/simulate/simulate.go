// Package simulate runs the benchmark's protocols under a virtual clock: the same cores, the same pipeline, replicas with
// as many processors as one likes, links with latency and bandwidth. What each step costs is measured first, on this
// machine. Without randomness, the same costs give the same result.
package simulate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/protocol"
	"github.com/qioi/qioi/ledger/internal/finite"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// Options are the machines that are simulated.
type Options struct {
	Cores     int           // Cores is each replica's processors.
	Speed     float64       // Speed is that of a processor, where this machine's is 1.
	Quota     float64       // Quota is each replica's part of its processors, in cores; 0: all.
	Period    time.Duration // Period is the time that a quota is of.
	Latency   time.Duration // Latency is of each link.
	Bandwidth float64       // Bandwidth is of what a replica sends, in bytes per second; 0: unbounded.
	Machines  int           // Machines is on how many the clients are.
	Batches   int           // Batches is how many are measured, after as many as are under way at once.
}

// Default is the machines of the paper's Google cloud, as far as it describes them.
func Default() Options {
	return Options{Cores: 8, Speed: 1, Latency: 100 * time.Microsecond, Bandwidth: 1.25e9, Machines: 4, Batches: 400}
}

// With is the same machines with what a run says of its links.
func (o Options) With(run plan.Run) Options {
	o.Latency += run.Delay
	if run.Bandwidth > 0 {
		o.Bandwidth = run.Bandwidth
	}
	return o
}

// Validate says what is wrong with them.
func (o Options) Validate() error {
	for _, n := range []struct {
		key    string
		number int
	}{{"cores", o.Cores}, {"machines", o.Machines}, {"batches", o.Batches}} {
		if n.number < 1 {
			return fmt.Errorf("%s %d: 1 and above are accepted", n.key, n.number)
		}
	}
	switch {
	case !finite.Is(o.Speed) || o.Speed <= 0:
		return fmt.Errorf("speed %g: a finite number above 0 is accepted", o.Speed)
	case !finite.Is(o.Quota) || o.Quota < 0:
		return fmt.Errorf("quota %g: 0, and what is finite above it, is accepted", o.Quota)
	case o.Quota > 0 && o.Period <= 0:
		return fmt.Errorf("quota %g of %s: a quota is of a period above 0", o.Quota, o.Period)
	case o.Latency < 0:
		return fmt.Errorf("latency %s: a time from 0 on is accepted", o.Latency)
	case !finite.Is(o.Bandwidth) || o.Bandwidth < 0:
		return fmt.Errorf("bandwidth %g: 0, and what is finite above it, is accepted", o.Bandwidth)
	}
	return nil
}

// Outcome is what a simulated run has come to.
type Outcome struct {
	Seconds      float64 // Seconds is virtual time that was measured.
	Transactions int
	Latencies    []Weighted // Latencies are ascending.
	Replicas     []Replica
}

// Weighted is a latency of so many transactions.
type Weighted struct {
	Latency time.Duration
	Count   int
}

// Replica is one replica's part: what its stages have counted, in the order of stage.Names.
type Replica struct {
	ID     bft.ID
	Stages []stage.Sample
}

var (
	errFetch = errors.New("a replica has fallen behind the others by more than a window")
	errStuck = errors.New("nothing is left to happen, and transactions wait")
	errHour  = fmt.Errorf("not done after %s of virtual time: fewer batches (--batches) or clients take less", longest)
)

// longest is how much virtual time a run may take.
const longest = time.Hour

// world is one run.
type world struct {
	run      plan.Run
	options  Options
	costs    Costs
	protocol protocol.Protocol
	engine   *engine
	replicas map[bft.ID]*replica
	batches  map[uint64]*batch
	made     uint64
	need     int
	err      error

	certificates []*batch // certificates are of batches whose clients wait for a quorum to hold theirs
	settled      int
	measuring    bool
	latencies    []Weighted
	count        int
}

// batch is what replicas agree on. Its bytes are imagined: the cores see its number.
type batch struct {
	tx       []byte
	number   uint64
	bytes    int
	requests int
	stamps   []stamp
	replies  map[bft.ID]int
	answers  map[bft.ID]bft.Message
	full     int
	done     bool
	// holders are those who hold the certificate that the clients have made.
	holders map[bft.ID]bool
}

// fakeBatch is a batch as cores see it.
func fakeBatch(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func batchNumber(tx []byte) uint64 { return binary.BigEndian.Uint64(tx) }

// Run simulates a run. It ends with ctx.
func Run(ctx context.Context, run plan.Run, o Options, costs Costs) (*Outcome, error) {
	w, err := newWorld(run, o, costs)
	if err != nil {
		return nil, err
	}
	return w.simulate(ctx)
}

// newWorld is a run in which nothing has happened yet.
func newWorld(run plan.Run, o Options, costs Costs) (*world, error) {
	if err := errors.Join(run.Validate(), o.Validate()); err != nil {
		return nil, err
	}
	p, err := protocol.Find(run)
	if err != nil {
		return nil, err
	}
	o = o.With(run)
	w := &world{
		run: run, options: o, costs: costs, protocol: p, engine: &engine{}, replicas: map[bft.ID]*replica{},
		batches: map[uint64]*batch{}, need: p.Accepts(run.Group()),
	}
	for i := range run.Alive() {
		id := bft.ID(i + 1)
		w.replicas[id] = w.newReplica(id)
	}
	return w, nil
}

func (w *world) simulate(ctx context.Context) (*Outcome, error) {
	run := w.run
	for i := range run.Alive() {
		w.replicas[bft.ID(i+1)].step(bft.Tick{}, 0)
	}
	underWay := run.Clients / run.Requests()
	for left := run.Clients; left > 0; left -= run.Requests() {
		w.submit(min(left, run.Requests()))
	}
	if err := w.until(ctx, underWay+50); err != nil {
		return nil, err
	}
	w.measuring = true
	before, began := w.standing(), w.engine.now
	if err := w.until(ctx, w.settled+max(w.options.Batches, underWay)); err != nil {
		return nil, err
	}
	return w.outcome(before, w.engine.now-began), nil
}

// until lets things happen until so many batches are settled.
func (w *world) until(ctx context.Context, settled int) error {
	for w.settled < settled {
		if w.err != nil {
			return w.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !w.engine.step() {
			return errStuck
		}
		if w.engine.now > longest {
			return errHour
		}
	}
	return nil
}

func (w *world) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// clientOf is the number under which replicas know a machine of clients.
func (w *world) clientOf(machine int) bft.ID { return bft.ID(w.run.Replicas + 1 + machine) }

// submit has clients send requests to the primary. Clients have as much CPU as they need.
func (w *world) submit(requests int) {
	bytes := requests * w.costs.Request
	f := frame{requests: stamp{w.engine.now, requests}, bytes: bytes}
	w.engine.after(w.options.Latency, func() { w.replicas[1].arrive(&parcelRun{frames: []frame{f}, bytes: bytes}) })
}

func (w *world) newBatch(stamps []stamp) *batch {
	w.made++
	b := &batch{number: w.made, tx: fakeBatch(w.made), stamps: stamps, replies: map[bft.ID]int{}, answers: map[bft.ID]bft.Message{}, holders: map[bft.ID]bool{}}
	for _, s := range stamps {
		b.requests += s.count
	}
	b.bytes = b.requests*w.costs.Request + 16
	w.batches[b.number] = b
	return b
}

// reply counts the frames of a replica. Once enough replicas have told all machines, the clients send again.
func (w *world) reply(f frame) {
	b := f.reply
	if b.replies[f.from]++; b.replies[f.from] < w.options.Machines || b.done {
		return
	}
	b.answers[f.from] = f.answer
	b.full++
	switch {
	case b.full == w.need:
		w.settle(b)
	case w.protocol.Certify != nil && b.full == w.run.Group().Quorum():
		w.engine.after(w.run.Fast, func() { w.certify(b) })
	}
}

// certify has the clients of a batch show the replicas that a quorum has answered alike. They share one certificate, as if
// a single client had sent the batch.
func (w *world) certify(b *batch) {
	if b.done {
		return
	}
	m := w.protocol.Certify(w.run.Group(), b.answers)
	w.certificates = append(w.certificates, b)
	bytes := 64 + w.run.Group().Quorum()*(w.costs.Proof+8)
	for i := range w.run.Alive() {
		to := w.replicas[bft.ID(i+1)]
		f := frame{from: w.clientOf(int(b.number) % w.options.Machines), message: m, bytes: bytes}
		w.engine.after(w.options.Latency, func() { to.arrive(&parcelRun{frames: []frame{f}, bytes: bytes}) })
	}
}

// certified counts the replicas that hold a certificate.
func (w *world) certified(from, _ bft.ID, m bft.Message) {
	if w.protocol.Certified == nil || !w.protocol.Certified(m) {
		return
	}
	seq := w.protocol.Place(m)
	for _, b := range w.certificates {
		if w.protocol.Place(b.answers[1]) != seq {
			continue
		}
		if b.holders[from] = true; len(b.holders) >= w.run.Group().Quorum() && !b.done {
			w.settle(b)
		}
		return
	}
}

// settle has the clients of a batch send again.
func (w *world) settle(b *batch) {
	b.done = true
	w.settled++
	w.certificates = slices.DeleteFunc(w.certificates, func(one *batch) bool { return one == b })
	for _, s := range b.stamps {
		if w.measuring {
			w.latencies = append(w.latencies, Weighted{w.engine.now - s.sent, s.count * w.run.Load.Burst})
			w.count += s.count * w.run.Load.Burst
		}
	}
	w.submit(b.requests)
	// No replica is so far behind: one that falls out of the window ends the run.
	if kept := uint64(max(10_000, w.run.Window())); b.number > kept {
		delete(w.batches, b.number-kept)
	}
}

// sizeOf is how long a message is on the wire.
func (w *world) sizeOf(m bft.Message) int {
	size := 64 + w.costs.Proof
	for _, tx := range w.protocol.Proposed(m) {
		size += w.batches[batchNumber(tx)].bytes
	}
	return size
}

// standing is what every replica has counted so far.
func (w *world) standing() []Replica {
	var all []Replica
	for i := range w.run.Alive() {
		one := Replica{ID: bft.ID(i + 1)}
		stages := w.replicas[one.ID].stages()
		for _, name := range stage.Names {
			one.Stages = append(one.Stages, sample(name, stages[name]))
		}
		all = append(all, one)
	}
	return all
}

// sample is what a stage's threads have counted; without any the worker has.
func sample(name string, threads []*thread) stage.Sample {
	s := stage.Sample{Name: name, Threads: len(threads)}
	for _, t := range threads {
		s.Capacity = stage.Unstated
		s.CPU += t.cpu.Seconds()
		s.Busy += t.atWork().Seconds()
		s.Units += t.units
		s.Waited += t.waited.Seconds()
	}
	return s
}

func (w *world) outcome(before []Replica, elapsed time.Duration) *Outcome {
	after := w.standing()
	for i := range after {
		for j := range after[i].Stages {
			after[i].Stages[j] = after[i].Stages[j].Since(before[i].Stages[j])
		}
	}
	slices.SortFunc(w.latencies, func(a, b Weighted) int { return int(a.Latency - b.Latency) })
	return &Outcome{Seconds: elapsed.Seconds(), Transactions: w.count, Latencies: w.latencies, Replicas: after}
}

// Percentile is in milliseconds.
func (o *Outcome) Percentile(part float64) float64 {
	rank := int(math.Ceil(part * float64(o.Transactions)))
	for _, l := range o.Latencies {
		if rank -= l.Count; rank <= 0 {
			return float64(l.Latency) / 1e6
		}
	}
	return 0
}

// Mean is in milliseconds.
func (o *Outcome) Mean() float64 {
	var sum float64
	for _, l := range o.Latencies {
		sum += float64(l.Latency) / 1e6 * float64(l.Count)
	}
	return sum / float64(max(1, o.Transactions))
}
