// Package simtest runs a protocol in the simulator as a test.
package simtest

import (
	"math/rand/v2"
	"os"
	"slices"
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

// mutantRuns is how many schedules have to find a mutant.
const mutantRuns = 3000

// Mutants are cores that lack one rule, by the rule's name.
type Mutants struct {
	Names []string
	// Script names a script that notices the mutant; "": none does.
	Script func(t *testing.T, name string) string
	// Known has seeds of schedules that notice a mutant, as the test's log tells them: they spare the search, as long as
	// they do. All others are searched for.
	Known map[string]uint64
	// Protocol has the mutant in place of the core, which is that of Sound.
	Protocol func(name string) sim.Protocol
	Sound    sim.Protocol
}

// Noticed shows that a script or a schedule would notice each of them.
func (m Mutants) Noticed(t *testing.T) {
	for _, name := range slices.Sorted(slices.Values(m.Names)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if script := m.Script(t, name); script != "" {
				t.Logf("testdata/%s", script)
				return
			}
			if seed, known := m.Known[name]; known && m.noticedIn(t, name, seed) {
				return
			}
			for seed := range uint64(mutantRuns) {
				if m.noticedIn(t, name, seed) {
					return
				}
			}
			t.Fatal("neither a script nor a schedule notices")
		})
	}
}

// noticedIn says whether the schedule of a seed notices a mutant. It fails where the sound core does not come through.
func (m Mutants) noticedIn(t *testing.T, name string, seed uint64) bool {
	err := sim.Run(m.Protocol(name), seed, sim.Options{Liars: true})
	if err == nil {
		return false
	}
	t.Logf("seed %d: %s", seed, err)
	require.NoError(t, sim.Run(m.Sound, seed, sim.Options{Liars: true}), "the schedule is no control: the sound core fails in it, too")
	return true
}
