package load

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in microseconds, from one to ten minutes, to three digits.
const (
	histogramMax    = int64(10 * time.Minute / time.Microsecond)
	histogramDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramMax, histogramDigits)
}

func observe(h *hdrhistogram.Histogram, d time.Duration) {
	// Clamped, so it cannot fail.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), histogramMax))
}

type failureKey struct {
	stage stage
	code  string
}

type failureCount struct {
	count   int64
	example string
}

// recorder keeps the results of a run. Transactions due inside the measured
// window count for latencies and failures; throughput counts the commits that
// happened inside it.
type recorder struct {
	windowStart time.Time

	mu        sync.Mutex
	windowEnd time.Time
	total     *hdrhistogram.Histogram
	stages    map[stage]*hdrhistogram.Histogram
	kinds     map[string]*hdrhistogram.Histogram // by function
	failures  map[failureKey]*failureCount
	sent      int64         // finished or not, due inside the window
	committed int64         // valid, due inside the window
	inWindow  int64         // valid, committed inside the window
	lost      int64         // writes due inside the window whose answer was lost
	unknown   int64         // of these, those of which nothing could be found out
	warm      int64         // valid, committed after the warm-up, the drain included
	longest   time.Duration // until any outcome of what was due inside the window
	all       counters
	series    *series
}

// counters are about everything since the start, for the progress line.
type counters struct{ sent, committed, failed int64 }

func newRecorder(start time.Time, p plan) *recorder {
	r := &recorder{
		windowStart: start.Add(p.warmup), windowEnd: start.Add(p.warmup + p.duration),
		total: newHistogram(), failures: map[failureKey]*failureCount{}, series: newSeries(start),
		stages: map[stage]*hdrhistogram.Histogram{}, kinds: map[string]*hdrhistogram.Histogram{},
	}
	return r
}

func (r *recorder) measured(due time.Time) bool {
	return !due.Before(r.windowStart) && due.Before(r.windowEnd)
}

// cut ends the window at an interrupt, if it has not ended.
func (r *recorder) cut(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.windowEnd) {
		r.windowEnd = now
	}
}

func (r *recorder) send(due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.sent++
	if r.measured(due) {
		r.sent++
	}
}

func (r *recorder) finish(o outcome, c call, due, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latency := now.Sub(due)
	r.series.add(now, latency, o.failedAt == "")
	if r.measured(due) {
		r.longest = max(r.longest, latency)
	}
	if o.lost && r.measured(due) {
		r.lost++
		if o.unknown {
			r.unknown++
		}
	}
	if o.failedAt != "" {
		r.all.failed++
		if r.measured(due) {
			r.countFailure(o)
		}
		return
	}
	r.all.committed++
	if !now.Before(r.windowStart) {
		r.warm++
	}
	if r.measured(now) {
		r.inWindow++
	}
	if !r.measured(due) {
		return
	}
	r.committed++
	observe(r.total, latency)
	observe(histogramOf(r.kinds, string(c[0])), latency)
	if o.commit > 0 {
		observe(histogramOf(r.stages, stageEndorse), o.endorse)
		observe(histogramOf(r.stages, stageSubmit), o.submit)
		observe(histogramOf(r.stages, stageCommit), o.commit)
	}
}

func histogramOf[K comparable](all map[K]*hdrhistogram.Histogram, key K) *hdrhistogram.Histogram {
	h := all[key]
	if h == nil {
		h = newHistogram()
		all[key] = h
	}
	return h
}

func (r *recorder) countFailure(o outcome) {
	key := failureKey{o.failedAt, o.code}
	f := r.failures[key]
	if f == nil {
		f = &failureCount{example: o.detail}
		r.failures[key] = f
	}
	f.count++
}

// failureList gives the measured failures, the most frequent first, and their sum.
func (r *recorder) failureList() (list []Failure, failed int64) {
	list = []Failure{}
	for key, f := range r.failures {
		list = append(list, Failure{Stage: string(key.stage), Code: key.code, Count: f.count, Example: f.example})
		failed += f.count
	}
	slices.SortFunc(list, func(a, b Failure) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Stage+a.Code, b.Stage+b.Code)
	})
	return list, failed
}
