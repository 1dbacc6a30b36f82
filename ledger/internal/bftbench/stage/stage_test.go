package stage

import (
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCPUOfUnknownItemsIsThatOfTheOthers(t *testing.T) {
	before := Sample{Busy: 1, CPU: 1, Units: 10, Known: 10, Looks: 1, Total: 2}
	after := Sample{Threads: 2, Busy: 5, CPU: 3, Units: 30, Known: 20, Looks: 3, Total: 8}
	found := after.Since(before)
	assert.Equal(t, 4.0, found.CPU, "10 of 20 items took 2 seconds")
	assert.Equal(t, 3.0, found.Waiting)
	assert.Equal(t, 0.5, found.Saturation(4), "two threads worked for 4 of 8 seconds")
	assert.Zero(t, Sample{Busy: 1}.Saturation(1), "the worker does it")
}

func TestAMeterTellsAScraper(t *testing.T) {
	m := &Meter{Name: Batch, Threads: 2, Queue: func() int { return 3 }}
	// A goroutine that sleeps may go on on another thread, whose time says nothing.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	span := m.Begin()
	time.Sleep(time.Millisecond)
	span.End(5)
	s := m.Sample()
	assert.GreaterOrEqual(t, s.Busy, 0.001)
	assert.Equal(t, int64(5), s.Units)
	registry := prometheus.NewRegistry()
	m.Register(registry)
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		one := f.GetMetric()[0]
		values[f.GetName()] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
	}
	assert.Equal(t, 3.0, values["qioi_bft_bench_stage_queue_length"])
	assert.Equal(t, 5.0, values["qioi_bft_bench_stage_items_total"])
	assert.Equal(t, 5.0, values["qioi_bft_bench_stage_cpu_items_total"], "the first piece of work is looked at")
	assert.Len(t, values, 6)
}
