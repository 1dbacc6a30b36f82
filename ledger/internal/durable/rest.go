package durable

import (
	"context"
	"sync/atomic"
	"time"
)

// longestRest bounds a single pause: work that took long has mostly waited itself.
const longestRest = 100 * time.Millisecond

// Rest has whoever writes large files pause after every 64 KB, so many times as long as these took to make and
// write. Clients wait for the same processor and disk, and a file like a checkpoint is nobody's hurry. A nil Rest
// is none.
type Rest struct {
	times   int
	ctx     atomic.Pointer[context.Context]
	hurried atomic.Bool
}

// NewRest makes one that takes effect with During.
func NewRest(times int) *Rest { return &Rest{times: times} }

// During has it take effect until ctx ends, also for a file that is half written then.
func (r *Rest) During(ctx context.Context) { r.ctx.Store(&ctx) }

// Hurry takes the pauses away, or gives them back: a file may be waited for after all.
func (r *Rest) Hurry(on bool) { r.hurried.Store(on) }

func (r *Rest) after(worked time.Duration) {
	if r == nil || r.hurried.Load() {
		return
	}
	ctx := r.ctx.Load()
	if ctx == nil || (*ctx).Err() != nil {
		return
	}
	timer := time.NewTimer(min(time.Duration(r.times)*worked, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-(*ctx).Done():
	}
}
