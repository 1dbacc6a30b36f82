package process

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGarbagePilesUpWhereLittleIsLive(t *testing.T) {
	for live, want := range map[uint64]int{0: 2400, 4 << 20: 2400, 48 << 20: 200, 96 << 20: 100, 4 << 30: 100} {
		assert.Equal(t, want, gcPercent(live), live)
	}
}

var sink []byte

func TestCollectionsAreSparedUntilTheEnd(t *testing.T) {
	t.Setenv("GOGC", "")
	ctx, cancel := context.WithCancel(context.Background())
	defer debug.SetGCPercent(goPercent)
	defer cancel()
	collections := func() uint32 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 48 {
			sink = make([]byte, 1<<20)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	assert.Greater(t, collections(), uint32(2), "this process has little live data")
	SpareCollections(ctx)
	assert.Zero(t, collections())
}

func TestGOGCIsTheUsersWord(t *testing.T) {
	t.Setenv("GOGC", "50")
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	SpareCollections(context.Background())
	assert.Equal(t, 50, debug.SetGCPercent(50))
}
