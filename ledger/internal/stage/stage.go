// Package stage counts what the parts of a replica's pipeline do: for how long each works, what CPU time that takes, and
// what waits in front of it.
package stage

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// Names of stages, in the order of the way of a transaction.
const (
	Input      = "input"
	Batch      = "batch"
	Worker     = "worker"
	Execute    = "execute"
	Checkpoint = "checkpoint"
	Output     = "output"
)

// Names are all stages.
var Names = []string{Input, Batch, Worker, Execute, Checkpoint, Output}

// Meter is one stage's. Its goroutines share it.
type Meter struct {
	Name     string
	Threads  int          // Threads is how many work at once; 0: the worker does it
	Queue    func() int   // Queue is how many items wait; nil: nothing can
	Capacity int          // Capacity is how many can; 0: none
	busy     atomic.Int64 // busy is wall time at work, in nanoseconds of all threads together
	cpu      atomic.Int64 // cpu is CPU time at work, likewise
	spans    atomic.Int64 // spans is how many pieces of work were begun
	units    atomic.Int64 // units is how many items were done
	known    atomic.Int64 // known is how many of them cpu is of
	waited   atomic.Int64 // waited is how long those were in the queue, in nanoseconds of all items together
}

// Span is a piece of work under way.
type Span struct {
	meter  *Meter
	began  time.Duration
	waited time.Duration // waited is of the items that were taken for it
	cpu    time.Duration
	thread int // thread is whose CPU time cpu is; 0: nobody looked
}

// eachCPU is of which pieces of work the CPU time is read: of one in so many. The four system calls that it takes, for each
// piece, were a sixth of a replica's work with batches of 1.
const eachCPU = 8

// Begin notes that a goroutine has something to do.
func (m *Meter) Begin() Span {
	s := Span{meter: m, began: now()}
	if m.spans.Add(1)%eachCPU == 1 {
		s.thread, s.cpu = unix.Gettid(), ThreadTime()
	}
	return s
}

// End notes that it has done so many items.
func (s Span) End(units int) {
	wall := now() - s.began
	s.meter.busy.Add(int64(wall))
	s.meter.units.Add(int64(units))
	s.meter.waited.Add(int64(s.waited))
	if s.thread == 0 {
		return
	}
	used := ThreadTime() - s.cpu
	// A goroutine that goes on on another thread finds the time of that one.
	if unix.Gettid() == s.thread && used >= 0 && used <= wall {
		s.meter.cpu.Add(int64(used))
		s.meter.known.Add(int64(units))
	}
}

// ThreadTime is the CPU time of the calling thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// ProcessTime is the CPU time of the whole process.
func ProcessTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Sample is what a meter has counted so far, or between two samples.
type Sample struct {
	Name     string  `json:"stage"`
	Threads  int     `json:"threads"`
	Busy     float64 `json:"busy_seconds"`
	CPU      float64 `json:"cpu_seconds"`
	Units    int64   `json:"units"`
	Known    int64   `json:"known"`          // Known is of how many units CPU is; Since makes it that of all.
	Waited   float64 `json:"waited_seconds"` // Waited is time in the queue, of all units together.
	Capacity int     `json:"capacity"`       // Capacity is how many units the queue holds; 0: there is none.
}

// Sample reads it.
func (m *Meter) Sample() Sample {
	return Sample{
		Name: m.Name, Threads: m.Threads, Busy: time.Duration(m.busy.Load()).Seconds(), CPU: time.Duration(m.cpu.Load()).Seconds(),
		Units: m.units.Load(), Known: m.known.Load(), Waited: time.Duration(m.waited.Load()).Seconds(), Capacity: m.Capacity,
	}
}

// Since is what was counted after an earlier sample.
func (s Sample) Since(before Sample) Sample {
	s.Busy -= before.Busy
	s.CPU -= before.CPU
	s.Units -= before.Units
	s.Known -= before.Known
	if s.Known > 0 {
		s.CPU *= float64(s.Units) / float64(s.Known)
	}
	s.Waited -= before.Waited
	return s
}

// Queue is how many units waited at once in an interval, in the mean: by Little's law, the time that all of them waited
// per time.
func (s Sample) Queue(seconds float64) float64 { return ratio(s.Waited, seconds) }

// Wait is for how many seconds a unit was in the queue, in the mean.
func (s Sample) Wait() float64 { return ratio(s.Waited, float64(s.Units)) }

// Service is for how many seconds a thread worked on a unit, in the mean.
func (s Sample) Service() float64 { return ratio(s.Busy, float64(s.Units)) }

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// Saturation is for which part of an interval each thread worked: at 1 the stage can do no more.
func (s Sample) Saturation(seconds float64) float64 {
	return ratio(s.Busy, seconds*float64(s.Threads))
}

// Register gives the meter's figures to a registry.
func (m *Meter) Register(to prometheus.Registerer) {
	labels := prometheus.Labels{"stage": m.Name}
	counter := func(name, help string, value func() float64) {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "qioi_bft_bench_" + name, Help: help, ConstLabels: labels}, value))
	}
	counter("stage_busy_seconds_total", "Time at work, of all threads of the stage.", func() float64 { return m.Sample().Busy })
	counter("stage_cpu_seconds_total", "CPU time at work, of all threads of the stage, for the items that it was read of.", func() float64 { return m.Sample().CPU })
	counter("stage_cpu_items_total", "Items that the CPU time was read of.", func() float64 { return float64(m.known.Load()) })
	counter("stage_items_total", "Items that the stage has done.", func() float64 { return float64(m.units.Load()) })
	gauge := func(name, help string, value func() float64) {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "qioi_bft_bench_" + name, Help: help, ConstLabels: labels}, value))
	}
	gauge("stage_threads", "How many work at once; 0: the worker does it.", func() float64 { return float64(m.Threads) })
	if m.Queue == nil {
		return
	}
	gauge("stage_queue_length", "Items that wait for the stage.", func() float64 { return float64(m.Queue()) })
	gauge("stage_queue_capacity", "Items that can wait for the stage.", func() float64 { return float64(m.Capacity) })
	counter("stage_wait_seconds_total", "Time in the stage's queue, of all items that the stage has done.", func() float64 { return m.Sample().Waited })
}

// Process is what a whole process has used.
type Process struct {
	CPU    float64 `json:"cpu_seconds"`
	System float64 `json:"system_seconds"` // System is the kernel's part of CPU.
	Memory float64 `json:"memory_mb"`      // Memory is the most that was resident.
	GC     uint32  `json:"collections"`
}

// Self reads it.
func Self() Process {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // it cannot fail with these arguments
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	system := time.Duration(usage.Stime.Nano()).Seconds()
	return Process{CPU: time.Duration(usage.Utime.Nano()).Seconds() + system, System: system, Memory: float64(usage.Maxrss) / 1024, GC: memory.NumGC}
}
