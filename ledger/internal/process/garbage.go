package process

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// spareBytes is how much garbage may pile up in a node before it is collected, where Go's default, as much as
	// there is live data, is less: a peer of 40 MB under load would collect seven times a second.
	spareBytes = 96 << 20
	goPercent  = 100     // Go's default
	leastHeap  = 4 << 20 // what Go reckons with where less is live
	liveMetric = "/gc/heap/live:bytes"
)

// SpareCollections lets garbage pile up to spareBytes until ctx ends. The environment variables GOGC, which
// goes before this, and GOMEMLIMIT keep their meaning.
func SpareCollections(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		adjust(ctx, goPercent)
	}
}

// adjust sets the percentage for what is live now, and has itself called after the next collection.
func adjust(ctx context.Context, now int) {
	if ctx.Err() != nil {
		return
	}
	sample := []metrics.Sample{{Name: liveMetric}}
	metrics.Read(sample)
	// Setting it stops the process for some microseconds.
	if want := gcPercent(sample[0].Value.Uint64()); want < now || want > now+now/8 {
		debug.SetGCPercent(want)
		now = want
	}
	runtime.SetFinalizer(&collected{}, func(*collected) { adjust(ctx, now) })
}

// collected is what the next collection finds unused.
type collected struct{ _ *collected }

// gcPercent is the percentage with which spareBytes, or as much as is live, may pile up.
func gcPercent(live uint64) int {
	return int(max(goPercent, 100*spareBytes/max(live, leastHeap)))
}
