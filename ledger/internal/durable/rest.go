package durable

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// longestRest bounds a single pause: work that took long has mostly waited itself.
	longestRest = 100 * time.Millisecond
	// mostTimes bounds how much longer than its work a pause is: a file is to be finished some time.
	mostTimes = 99
)

// Rest makes the writer of large files pause after every 64 KB, for a multiple of the time that these took to make and
// write. Clients wait for the same processor and disk, and no client waits for a file like a checkpoint. A nil Rest
// makes no pauses.
type Rest struct {
	times   int // at least
	now     int
	worked  time.Duration // on the file that is written, or was last
	ctx     atomic.Pointer[context.Context]
	hurried atomic.Bool
}

// NewRest makes one that takes effect with During.
func NewRest(times int) *Rest { return &Rest{times: times, now: times} }

// During has it take effect until ctx ends, also for a file that is half written then.
func (r *Rest) During(ctx context.Context) { r.ctx.Store(&ctx) }

// Spread has the next file take about so long, where it takes the work that the last one took: with longer pauses, never
// with shorter ones. It is for the time between two files.
func (r *Rest) Spread(over time.Duration) {
	r.now = r.times
	if r.worked > 0 {
		r.now = min(max(r.times, int(over/r.worked)-1), mostTimes)
	}
	r.worked = 0
}

// Hurry takes the pauses away, or gives them back: a file may be waited for after all.
func (r *Rest) Hurry(on bool) { r.hurried.Store(on) }

func (r *Rest) after(worked time.Duration) {
	if r == nil {
		return
	}
	r.worked += worked
	if r.hurried.Load() {
		return
	}
	ctx := r.ctx.Load()
	if ctx == nil || (*ctx).Err() != nil {
		return
	}
	timer := time.NewTimer(min(time.Duration(r.now)*worked, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-(*ctx).Done():
	}
}
