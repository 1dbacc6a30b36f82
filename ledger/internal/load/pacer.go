package load

import (
	"context"
	"sort"
	"sync/atomic"
	"time"

	"github.com/qioi/qioi/ledger/internal/process"
)

// plan is when a run sends and what of it is measured.
type plan struct {
	rate     float64 // transactions per second; 0: closed loop
	burst    int     // so many are due at once; 0 is as 1
	workers  int     // clients of a closed loop, bound of what is under way in an open one
	warmup   time.Duration
	duration time.Duration // measured, after the warm-up
	cooldown time.Duration // goes on at the same rate, so that the last blocks of the window fill like the others
}

// pacer hands out transactions to workers.
type pacer struct {
	plan
	start  time.Time
	issued atomic.Int64
}

func (p *pacer) windowStart() time.Time { return p.start.Add(p.warmup) }
func (p *pacer) windowEnd() time.Time   { return p.start.Add(p.warmup + p.duration) }
func (p *pacer) end() time.Time         { return p.windowEnd().Add(p.cooldown) }

// next waits for a transaction's due time. It gives its number and the instant
// from which its latency counts; ok is false when the run is over.
func (p *pacer) next(ctx context.Context) (i int, due time.Time, ok bool) {
	for {
		i = int(p.issued.Add(1) - 1)
		if p.rate == 0 {
			now := time.Now()
			return i, now, now.Before(p.end()) && ctx.Err() == nil
		}
		due = p.due(i)
		if !due.Before(p.end()) || ctx.Err() != nil {
			return 0, due, false
		}
		wait := time.Until(due)
		if wait <= 0 && p.overdue(due, time.Now()) {
			continue
		}
		return i, due, sleep(ctx, wait)
	}
}

func (p *pacer) due(i int) time.Time {
	if p.burst > 1 {
		i -= i % p.burst
	}
	return p.start.Add(time.Duration(float64(i) / p.rate * float64(time.Second)))
}

// dueBy is how many transactions of an open loop are due before an instant.
func (p *pacer) dueBy(at time.Time) int64 {
	if p.rate == 0 {
		return 0
	}
	most := int(at.Sub(p.start).Seconds()*p.rate) + 2*max(1, p.burst)
	return int64(sort.Search(max(0, most), func(i int) bool { return !p.due(i).Before(at) }))
}

// keepTime wakes this process for each due time until ctx ends. Without it transactions would leave up to a millisecond
// late (process.Alarm), several at once, and their latency counts from when they were due.
func (p *pacer) keepTime(ctx context.Context, alarm *process.Alarm) {
	for {
		every := max(1, p.burst)
		next := every * (1 + int(time.Since(p.start).Seconds()*p.rate/float64(every)))
		alarm.Set(time.Until(p.due(next)))
		select {
		case <-alarm.C:
		case <-ctx.Done():
			return
		}
	}
}

// overdue says whether all workers were busy until the end of the part of the run
// that a transaction was due in: then it is not sent.
func (p *pacer) overdue(due, now time.Time) bool {
	if due.Before(p.windowEnd()) {
		return !now.Before(p.windowEnd())
	}
	return !now.Before(p.end())
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	process.PreciseTimers()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
