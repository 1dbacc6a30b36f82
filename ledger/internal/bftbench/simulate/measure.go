package simulate

import (
	"runtime"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/stage"
)

// chunks is how many times each operation is measured.
const chunks = 41

// measure is the typical CPU time of f, which does the operation so many times, and what collecting its garbage takes.
func (c *Costs) measure(times int, f func(int)) time.Duration { return c.timed(times, f, 0) }

// measureCold is measure where each chunk finds so much of the caches spoilt, as the stages of a replica do that work once
// in a batch.
func (c *Costs) measureCold(cold int, f func(int)) time.Duration { return c.timed(1, f, cold) }

func (c *Costs) timed(times int, f func(int), cold int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f(max(1, times/10))
	found := make([]time.Duration, chunks)
	before := allocated()
	for i := range found {
		spoil(cold)
		began := stage.ThreadTime()
		f(times)
		found[i] = (stage.ThreadTime() - began) / time.Duration(times)
	}
	garbage := scale(c.Garbage, int(allocated()-before)/chunks/times)
	return typical(found) + garbage
}

// spoil fills so many bytes of the processor's caches with something else, as other work on it does.
func spoil(bytes int) {
	for i := 0; i < bytes; i += cacheLine {
		spoiler[i]++
	}
}

const (
	cacheLine = 64
	// ownCache is what one processor has to itself, as a rule, and sharedCache what all of a host share.
	ownCache, sharedCache = 4 << 20, 32 << 20
)

var spoiler [sharedCache]byte

// allocated is how many bytes this process has asked for so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// measureGarbage collects with a table such as a replica's alive. The next collection comes when as much has been
// allocated as was alive.
func (c *Costs) measureGarbage() {
	var all []time.Duration
	var m runtime.MemStats
	for range 5 {
		before := stage.ProcessTime()
		runtime.GC()
		all = append(all, stage.ProcessTime()-before)
	}
	runtime.ReadMemStats(&m)
	slices.Sort(all)
	c.Garbage = float64(all[len(all)/2]) / float64(max(m.HeapAlloc, leastHeap))
}

// leastHeap is how much a process may allocate, in bytes, before it collects for the first time.
const leastHeap = 4 << 20

// typical is the mean of all but the longest twentieth, which others have interrupted.
func typical(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	times = times[:len(times)-len(times)/20]
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return sum / time.Duration(len(times))
}
