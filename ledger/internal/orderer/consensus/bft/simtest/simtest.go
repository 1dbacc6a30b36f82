// Package simtest runs a protocol in the simulator as a test.
package simtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
)

// Lying is a protocol whose liars have these habits, and tell each lie.
type Lying struct {
	Habits   []lies.Habit
	Protocol func(told func(lies.Habit)) sim.Protocol
}

// Schedules runs random schedules. A failure prints its seed; QIOI_SEED=N runs that one alone and tells
// what happens, QIOI_SIMULATE=1h runs for that long. The folder is the test's, beside this package.
//
// Every habit of a liar is heard of in some schedule that all correct replicas came through.
func Schedules(t *testing.T, lying Lying, folder string) {
	told := map[lies.Habit]int{}
	protocol := lying.Protocol(func(h lies.Habit) { told[h]++ })
	if text := os.Getenv("QIOI_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		options := optionsOf(seed)
		options.Trace = t.Logf
		require.NoError(t, sim.Run(protocol, seed, options))
		return
	}
	runs, until := uint64(10000), time.Time{}
	if testing.Short() {
		runs = 300
	}
	first := uint64(1)
	if text := os.Getenv("QIOI_SIMULATE"); text != "" {
		length, err := time.ParseDuration(text)
		require.NoError(t, err)
		runs, until, first = 1<<62, time.Now().Add(length), rand.Uint64()>>1
	}
	for seed := first; seed < first+runs; seed++ {
		if err := sim.Run(protocol, seed, optionsOf(seed)); err != nil {
			t.Fatalf("%s\nagain: QIOI_SEED=%d go test -run TestSimulator -v ./internal/orderer/consensus/bft/%s", err, seed, folder)
		}
		if !until.IsZero() && time.Now().After(until) {
			t.Logf("%d schedules", seed-first)
			return
		}
	}
	for _, h := range lying.Habits {
		require.Positive(t, told[h], "no liar %s", h)
	}
}

// optionsOf has every fourth schedule be one of several epochs, and half of these have configurations that compete. Every
// second one has marks.
func optionsOf(seed uint64) sim.Options {
	return sim.Options{Liars: true, Ends: seed%4 == 0, Rivals: seed%8 == 0, Marks: seed%2 == 0}
}
