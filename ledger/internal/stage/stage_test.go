package stage

import (
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/ops/opstest"
)

func TestCPUOfUnknownItemsIsThatOfTheOthers(t *testing.T) {
	before := Sample{Busy: 1, CPU: 1, Units: 10, Known: 10, Waited: 2}
	after := Sample{Threads: 2, Busy: 5, CPU: 3, Units: 30, Known: 20, Waited: 10}
	found := after.Since(before)
	assert.Equal(t, 4.0, found.CPU, "10 of 20 items took 2 seconds")
	assert.Equal(t, 2.0, found.Queue(4), "8 seconds of waiting in 4 seconds")
	assert.Equal(t, 0.4, found.Wait(), "8 seconds of 20 items")
	assert.Equal(t, 0.2, found.Service())
	assert.Equal(t, 0.5, found.Saturation(4), "two threads worked for 4 of 8 seconds")
	assert.Zero(t, Sample{Busy: 1}.Saturation(1), "the worker does it")
	assert.Zero(t, Sample{}.Wait(), "nothing was done")
}

func TestAMeterTellsAScraper(t *testing.T) {
	m := &Meter{Name: Batch, Threads: 2, Queue: func() int { return 3 }, Capacity: 8}
	waiting := Wait("item")
	time.Sleep(time.Millisecond)
	// A goroutine that sleeps may go on on another thread, whose time says nothing.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	span := m.Begin()
	assert.Equal(t, "item", Take(&span, waiting))
	time.Sleep(time.Millisecond)
	span.End(5)
	s := m.Sample()
	assert.GreaterOrEqual(t, s.Busy, 0.001)
	assert.Equal(t, int64(5), s.Units)
	registry := prometheus.NewRegistry()
	m.Register(registry)
	value := func(name string) float64 {
		return opstest.Value(t, registry, "qioi_bft_bench_stage_"+name, `stage="batch"`)
	}
	assert.Equal(t, 3.0, value("queue_length"))
	assert.Equal(t, 8.0, value("queue_capacity"))
	assert.GreaterOrEqual(t, value("wait_seconds_total"), 0.001)
	assert.Equal(t, 5.0, value("items_total"))
	assert.Equal(t, 5.0, value("cpu_items_total"), "the first piece of work is looked at")
	assert.Len(t, opstest.Series(t, registry), 8)
}

func TestAnItemWaitsUntilTheSpanThatTakesItBegins(t *testing.T) {
	m := &Meter{Name: Worker, Threads: 1}
	began := time.Now()
	first, second := Wait(1), Wait(2)
	time.Sleep(time.Millisecond)
	span := m.Begin()
	until := time.Since(began)
	time.Sleep(time.Millisecond)
	late := Wait(3)
	assert.Equal(t, []int{1, 2, 3}, []int{Take(&span, first), Take(&span, second), Take(&span, late)})
	span.End(3)
	waited := m.Sample().Waited
	assert.GreaterOrEqual(t, waited, 0.002, "two of them, a millisecond each")
	assert.LessOrEqual(t, waited, 2*until.Seconds(), "what came while the span was at work did not wait, nor count against the others")
	assert.Equal(t, int64(3), m.Sample().Units)
}

func TestAStageWithoutAQueueShowsNone(t *testing.T) {
	registry := prometheus.NewRegistry()
	(&Meter{Name: Input, Threads: 3}).Register(registry)
	series := opstest.Series(t, registry)
	assert.Len(t, series, 5)
	for name := range series {
		assert.NotContains(t, name, "queue")
		assert.NotContains(t, name, "wait")
	}
}
