package simulate

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// known are round costs, so that what follows from them can be said.
func known() Costs {
	return Costs{
		Verify: 50 * time.Microsecond, Tag: time.Microsecond, Broadcast: time.Microsecond, Check: time.Microsecond, Request: 120, Proof: 64,
		Hash: 0.7, Copy: 0.1, Walk: 50, Gather: 50, Execute: 500,
		Core: Core{Spell: 500, Read: 500, Step: map[string]time.Duration{
			"submit": 2000, "pre-prepare": 2000, "prepare": 1000, "commit": 1000, "synced": 2000, "order": 2000, "response": 1000,
			"local-commit": 1000, "checkpoint": 1000, "tick": 1000, "status": 1000, "proof": 1000, "want": 1000, "have": 1000,
		}},
		Send: 5 * time.Microsecond, Receive: 2 * time.Microsecond, SendByte: 0.3, ReceiveByte: 0.3, Wake: 500,
	}
}

func small() (plan.Run, Options) {
	run, o := plan.Default(), Default()
	run.Clients, o.Batches, o.Machines = 1000, 60, 1
	return run, o
}

// counted is what a replica's stage has counted.
func counted(o *Outcome, replica int, name string) stage.Sample {
	all := o.Replicas[replica].Stages
	return all[slices.IndexFunc(all, func(s stage.Sample) bool { return s.Name == name })]
}

// TestAnItemWaitsUntilItsThreadBeginsIt, by the virtual clock; what a thread gives itself is no item.
func TestAnItemWaitsUntilItsThreadBeginsIt(t *testing.T) {
	h := &host{engine: &engine{}, free: 2, speed: 1}
	one, other := h.newThread(0), h.newThread(0)
	piece := func(done func()) job { return func() (time.Duration, func()) { return time.Millisecond, done } }
	nothing := func() {}
	one.put(piece(func() {
		other.put(piece(nothing)) // there is a processor for it
		one.put(piece(nothing))
	}))
	one.put(piece(nothing))
	for h.engine.step() {
	}
	assert.Equal(t, stage.Sample{
		Name: "a", Threads: 1, Capacity: stage.Unstated, Units: 2, Waited: 0.001, Busy: 0.003, CPU: 0.003,
	}, sample("a", []*thread{one}))
	assert.Equal(t, int64(1), other.units, "another thread's is an item")
	assert.Zero(t, other.waited)
	assert.Equal(t, stage.Sample{Name: "b"}, sample("b", nil), "the worker does it")
}

// TestStagesCountTheirItems: a primary's batch stage has an item for each batch, which waits where it is full.
func TestStagesCountTheirItems(t *testing.T) {
	run, o := small()
	found, err := Run(t.Context(), run, o, known())
	require.NoError(t, err)
	batches := float64(found.Transactions) / float64(run.Batch)
	for replica := range run.Replicas {
		assert.InDelta(t, batches, float64(counted(found, replica, stage.Batch).Units), 12, "replica %d", replica)
		assert.InDelta(t, batches, float64(counted(found, replica, stage.Execute).Units), 12, "replica %d", replica)
	}
	full := counted(found, 0, stage.Batch)
	assert.Greater(t, full.Wait(), full.Service(), "ten batches are under way, and two are verified")
	spare := counted(found, 0, stage.Execute)
	assert.Less(t, spare.Wait(), full.Wait()/10)
	run.Stages.Batch, run.Stages.Execute = 0, 0
	alone, err := Run(t.Context(), run, o, known())
	require.NoError(t, err)
	assert.Equal(t, stage.Sample{Name: stage.Batch}, counted(alone, 0, stage.Batch))
	assert.Positive(t, counted(alone, 0, stage.Worker).Wait())
}

func TestTheStageThatIsFullBoundsTheThroughput(t *testing.T) {
	run, o := small()
	found, err := Run(t.Context(), run, o, known())
	require.NoError(t, err)
	// Two batch threads verify 50 us a transaction: 40,000 a second at most.
	tps := float64(found.Transactions) / found.Seconds
	assert.InDelta(t, 40_000, tps, 2000)
	batch, worker := counted(found, 0, stage.Batch), counted(found, 0, stage.Worker)
	assert.InDelta(t, 1, batch.Saturation(found.Seconds), 0.03)
	assert.Less(t, worker.Saturation(found.Seconds), 0.5)
	// Little's law ties the clients to their latency.
	assert.InEpsilon(t, 1000/tps*1000, found.Mean(), 0.1)
	assert.LessOrEqual(t, found.Percentile(0.5), found.Percentile(0.99))

	run.Stages.Batch, run.Stages.Execute = 0, 0
	alone, err := Run(t.Context(), run, o, known())
	require.NoError(t, err)
	assert.Less(t, float64(alone.Transactions)/alone.Seconds, 0.55*tps, "the worker does it all")
}

// TestAGroupWaitsNoLongerThanItsLinger, also where the one before it has filled up while the time ran.
func TestAGroupWaitsNoLongerThanItsLinger(t *testing.T) {
	run, o := small()
	run.Batch, o.Latency = 10, time.Second // the clients' next requests come later
	w, err := newWorld(run, o, known())
	require.NoError(t, err)
	primary := w.replicas[1]
	arrive := func(at time.Duration, requests int) {
		w.engine.after(at, func() { primary.cut(stamp{at, requests}) })
	}
	arrive(0, 5)
	arrive(2*time.Millisecond, 10)
	arrive(6*time.Millisecond, 1)
	for w.made < 2 && w.engine.step() {
	}
	assert.Equal(t, 2*time.Millisecond+run.Linger, w.engine.now)
	assert.Equal(t, 6, w.batches[2].requests)
	assert.Empty(t, primary.group)
}

func TestAnHourThatIsTooShortIsSaid(t *testing.T) {
	run, o := small()
	run.Protocol, o.Latency = "none", time.Hour
	_, err := Run(t.Context(), run, o, known())
	require.ErrorIs(t, err, errHour)
}

func TestARunEndsWithItsContext(t *testing.T) {
	run, o := small()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, run, o, known())
	require.ErrorIs(t, err, context.Canceled)
}

func TestACheckpointCostsItsDigestAndTheCoresStep(t *testing.T) {
	run, o := small()
	run.Checkpoint = 5 * run.Batch
	costs := known()
	costs.Wake = 0
	found, err := Run(t.Context(), run, o, costs)
	require.NoError(t, err)
	point := counted(found, 0, stage.Checkpoint)
	assert.Positive(t, point.Units)
	// What the core does of it is the worker's.
	assert.InEpsilon(t, float64(scale(costs.Hash, (5+1)*32))/1e9, point.CPU/float64(point.Units), 1e-6)
}

func TestProcessorsLinksAndFailuresCount(t *testing.T) {
	run, o := small()
	rate := func(change func(*plan.Run, *Options)) float64 {
		r, o := run, o
		change(&r, &o)
		found, err := Run(t.Context(), r, o, known())
		require.NoError(t, err)
		return float64(found.Transactions) / found.Seconds
	}
	base := rate(func(*plan.Run, *Options) {})
	assert.InEpsilon(t, base, rate(func(*plan.Run, *Options) {}), 1e-9, "the same costs give the same result")
	assert.Less(t, rate(func(_ *plan.Run, o *Options) { o.Cores = 1 }), 0.6*base)
	assert.InEpsilon(t, base/2, rate(func(_ *plan.Run, o *Options) { o.Speed = 0.5 }), 0.1)
	assert.Less(t, rate(func(r *plan.Run, _ *Options) { r.Overlap, r.Delay = 1, 5*time.Millisecond }), 0.3*base, "in order over slow links")
	// Three backups get 12,000 bytes a batch.
	assert.InEpsilon(t, 1e6/(3*120), rate(func(_ *plan.Run, o *Options) { o.Bandwidth = 1e6 }), 0.3)
	assert.InEpsilon(t, base, rate(func(r *plan.Run, _ *Options) { r.Failed = 1 }), 0.1)
	assert.Positive(t, rate(func(r *plan.Run, _ *Options) { r.Replicas = 16 }))
}

func TestAReplicaThatHasUsedItsQuotaStandsStillUntilTheNextPeriod(t *testing.T) {
	run, o := small()
	outcome := func(change func(*plan.Run, *Options)) (tps, mean float64) {
		r, o := run, o
		o.Cores, o.Period = 1, 10*time.Millisecond
		change(&r, &o)
		found, err := Run(t.Context(), r, o, known())
		require.NoError(t, err)
		for _, one := range found.Replicas {
			used := 0.0
			for _, s := range one.Stages {
				used += s.CPU
			}
			if o.Quota > 0 {
				assert.LessOrEqual(t, used/found.Seconds, o.Quota*1.02, "replica %d", one.ID)
			}
		}
		return float64(found.Transactions) / found.Seconds, found.Mean()
	}
	whole, _ := outcome(func(*plan.Run, *Options) {})
	part, _ := outcome(func(_ *plan.Run, o *Options) { o.Quota = 0.4 })
	assert.InEpsilon(t, 0.4*whole, part, 0.05)
	// Whoever needs less than the quota does not notice it, where a slower processor takes longer for all.
	few := func(r *plan.Run) { r.Clients, r.Batch, r.Checkpoint = 1, 1, 100 }
	_, alone := outcome(func(r *plan.Run, _ *Options) { few(r) })
	_, spared := outcome(func(r *plan.Run, o *Options) { few(r); o.Quota = 0.4 })
	_, slower := outcome(func(r *plan.Run, o *Options) { few(r); o.Speed = 0.4 })
	assert.InEpsilon(t, alone, spared, 0.02)
	assert.Greater(t, slower, 1.2*alone)
}

func TestOneFailedBackupSendsClientsOfZyzzyvaTheLongWay(t *testing.T) {
	run, o := small()
	run.Protocol = "zyzzyva"
	whole, err := Run(t.Context(), run, o, known())
	require.NoError(t, err)
	assert.Less(t, whole.Mean(), 60.0)
	run.Failed = 1
	failed, err := Run(t.Context(), run, o, known())
	require.NoError(t, err)
	assert.Greater(t, failed.Mean(), float64(run.Fast.Milliseconds()), "each client waits for the last replica in vain")
	assert.Less(t, float64(failed.Transactions)/failed.Seconds, 0.5*float64(whole.Transactions)/whole.Seconds)
}

// TestABatchThatAllAnsweredAfterAllIsRememberedNoMore: its last answer came when its clients were asking for certificates.
func TestABatchThatAllAnsweredAfterAllIsRememberedNoMore(t *testing.T) {
	run, o := small()
	run.Protocol, run.Fast = "zyzzyva", time.Nanosecond
	w, err := newWorld(run, o, known())
	require.NoError(t, err)
	_, err = w.simulate(t.Context())
	require.NoError(t, err)
	assert.Greater(t, w.settled, 0)
	for _, b := range w.certificates {
		assert.False(t, b.done, "%d", b.number)
	}
}

// TestAViewOutlastsItsPatienceWhereACheckpointTakesLonger: replicas settle in between what clients know already.
func TestAViewOutlastsItsPatienceWhereACheckpointTakesLonger(t *testing.T) {
	run, o := small()
	run.Protocol, run.Batch, run.Clients, o.Latency, run.Delay, o.Batches = "zyzzyva", 1, 1, 20*time.Millisecond, time.Millisecond, 1000
	w, err := newWorld(run, o, known())
	require.NoError(t, err)
	found, err := w.simulate(t.Context())
	require.NoError(t, err)
	assert.Greater(t, found.Seconds, 60.0)
	for id, r := range w.replicas {
		assert.Zero(t, r.core.View().View, "replica %d", id)
		assert.Positive(t, r.core.View().Applied, "replica %d", id)
	}
}

// TestABatchIsKeptForAsLongAsAReplicaMayAskForIt: one that is no further behind than its window does not end a run.
func TestABatchIsKeptForAsLongAsAReplicaMayAskForIt(t *testing.T) {
	run, o := small()
	run.Batch = 1
	w, err := newWorld(run, o, known())
	require.NoError(t, err)
	window := uint64(run.Window())
	require.Greater(t, window, uint64(80_000), "eight checkpoints")
	for w.made < window {
		w.settle(w.newBatch(nil))
	}
	assert.Contains(t, w.batches, uint64(1))
	w.settle(w.newBatch(nil))
	assert.NotContains(t, w.batches, uint64(1))
}

func TestCostsAreMeasured(t *testing.T) {
	run, _ := small()
	run.Load.Records = 1000
	c, err := MeasureCosts(t.Context(), run)
	require.NoError(t, err)
	assert.Greater(t, c.Verify, c.Check, "a signature takes longer than a code")
	assert.Positive(t, c.Send)
	assert.Positive(t, c.Execute)
	assert.Positive(t, c.Meter)
	assert.Positive(t, c.Garbage)
	assert.Greater(t, c.Handoff, c.Wake, "another thread is woken too")
	assert.Greater(t, c.Request, 64)
}

// TestAFrameThatIsReadIsCollected: each is allocated anew.
func TestAFrameThatIsReadIsCollected(t *testing.T) {
	c := Costs{Garbage: 1000} // far more than to read a byte takes
	require.NoError(t, c.measureConnections())
	assert.InEpsilon(t, 1000, c.ReceiveByte, 0.1)
}

func TestAReplyOfManyAnswersTakesLongerToProve(t *testing.T) {
	run, o := small()
	costs := known()
	output := func() float64 {
		found, err := Run(t.Context(), run, o, costs)
		require.NoError(t, err)
		return counted(found, 0, stage.Output).CPU / float64(found.Transactions)
	}
	before := output()
	costs.TagByte = 100
	perReply := 100 * (64 + 12*float64(run.Batch)) / 1e9
	assert.InEpsilon(t, before+perReply/float64(run.Batch), output(), 0.1)
}

// ending is a context that ends after so many looks at it.
type ending struct {
	context.Context
	looks int
}

func (e *ending) Err() error {
	if e.looks--; e.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestAMeasurementEndsInBetween where nobody waits for it any longer.
func TestAMeasurementEndsInBetween(t *testing.T) {
	run, _ := small()
	run.Load.Records = 1000
	for looks := range 6 { // before each part, with two in the first of the four
		ctx := &ending{t.Context(), looks}
		_, err := MeasureCosts(ctx, run)
		require.Equal(t, looks < 5, errors.Is(err, context.Canceled), "after %d looks", looks)
	}
	for _, looks := range []int{0, 1, 50} {
		ctx := &ending{t.Context(), looks}
		_, err := MeasureCore(ctx, run)
		require.ErrorIs(t, err, context.Canceled, "after %d looks", looks)
		require.Equal(t, -1, ctx.looks, "it goes on after an end")
	}
}

// TestEveryStepOfACoreIsMeasured, also where a checkpoint comes after more batches than are measured otherwise.
func TestEveryStepOfACoreIsMeasured(t *testing.T) {
	for name, kinds := range map[string][]string{
		"none": {"submit", "tick"},
		"pbft": {"submit", "tick", "synced", "pre-prepare", "prepare", "commit", "checkpoint", "status", "proof", "want", "have"},
		"zyzzyva": {
			"submit", "tick", "synced", "order", "response", "commit", "local-commit", "checkpoint", "status", "proof",
		},
	} {
		for _, batch := range []int{1, 100} {
			run, _ := small()
			run.Protocol, run.Batch = name, batch
			core, err := MeasureCore(t.Context(), run)
			require.NoError(t, err)
			core = core.Collected(0.1)
			assert.ElementsMatch(t, kinds, slices.Collect(maps.Keys(core.Step)), "%s, batches of %d", name, batch)
			for kind, cost := range core.Step {
				assert.Positive(t, cost, "%s of %s", kind, name)
			}
			assert.Positive(t, core.Spell)
			assert.Positive(t, core.Read)
		}
	}
}

func TestAStepWithoutACostEndsARun(t *testing.T) {
	run, o := small()
	costs := known()
	delete(costs.Step, "commit")
	_, err := Run(t.Context(), run, o, costs)
	require.ErrorContains(t, err, `"commit"`)
}

// TestAMeasurementHasTheClientsOfTheOneBefore: they are new in the first one only, which is not counted.
func TestAMeasurementHasTheClientsOfTheOneBefore(t *testing.T) {
	run, _ := small()
	source := ycsb.NewSource(run.Load, run.Load.Law(), 1)
	const count = 3
	batches := batchesFor(3, count, source, fixed("x"))
	require.Len(t, batches, 3*(chunks+1))
	last := map[uint64]uint64{}
	for i, batch := range batches {
		require.NoError(t, ycsb.Unbatch(batch, func(s ycsb.Signed) bool {
			client, number := ycsb.Who(s.Body)
			assert.Equal(t, i > chunks, last[client] > 0, "batch %d", i)
			assert.Greater(t, number, last[client], "a replica executes it")
			last[client] = number
			return true
		}))
	}
	assert.Len(t, last, (chunks+1)*count)
}

func TestImpossibleMachinesAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"cores 0: 1 and above are accepted":                 func(o *Options) { o.Cores = 0 },
		"machines 0: 1 and above are accepted":              func(o *Options) { o.Machines = 0 },
		"batches -1: 1 and above are accepted":              func(o *Options) { o.Batches = -1 },
		"speed 0: a finite number above 0 is accepted":      func(o *Options) { o.Speed = 0 },
		"speed NaN: a finite number above 0 is accepted":    func(o *Options) { o.Speed = math.NaN() },
		"speed +Inf: a finite number above 0 is accepted":   func(o *Options) { o.Speed = math.Inf(1) },
		"latency -1s: a time from 0 on is accepted":         func(o *Options) { o.Latency = -time.Second },
		"bandwidth NaN: 0, and what is finite above it, is": func(o *Options) { o.Bandwidth = math.NaN() },
		"quota NaN: 0, and what is finite above it, is":     func(o *Options) { o.Quota = math.NaN() },
		"quota 0.4 of 0s: a quota is of a period above 0":   func(o *Options) { o.Quota = 0.4 },
	} {
		run, o := small()
		change(&o)
		_, err := Run(t.Context(), run, o, known())
		require.ErrorContains(t, err, want)
	}
}
