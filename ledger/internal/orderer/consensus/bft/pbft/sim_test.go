package pbft_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft/liar"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
)

// protocol is small in everything, so that runs come to its bounds.
func protocol() sim.Protocol {
	return sim.Protocol{
		New: func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			return pbft.New(simConfig(id, group), oracle, state, records)
		},
		Liar: func(rng *rand.Rand, id bft.ID, group bft.Group, oracle bft.Oracle) sim.Liar {
			return liar.New(rng, liar.Config{ID: id, Domain: "ch", Group: group, Window: simWindow}, oracle)
		},
		HeldAtMost: 2*simWindow + 1, PendingAtMost: 16 * simPending, Bound: 2 * time.Minute,
	}
}

const (
	simWindow  = 9
	simPending = 64
)

func simConfig(id bft.ID, group bft.Group) pbft.Config {
	return pbft.Config{
		ID: id, Domain: "ch", Group: group, Interval: 3, Window: simWindow, Overlap: 4, BatchTxs: 2, BatchBytes: 1 << 10,
		Pending: simPending, PendingBytes: 1 << 16, Timeout: time.Second, MaxTimeout: 16 * time.Second, Resend: 200 * time.Millisecond,
	}
}

// TestSimulator runs random schedules. A failure prints its seed; QIOI_SEED=N runs that one alone and tells
// what happens, QIOI_SIMULATE=1h runs for that long.
func TestSimulator(t *testing.T) {
	if text := os.Getenv("QIOI_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(protocol(), seed, sim.Options{Liars: true, Trace: t.Logf}); err != nil {
			t.Fatal(err)
		}
		return
	}
	runs, until := uint64(10000), time.Time{}
	if testing.Short() {
		runs = 300
	}
	first := uint64(1)
	if text := os.Getenv("QIOI_SIMULATE"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		runs, until, first = 1<<62, time.Now().Add(length), rand.Uint64()>>1
	}
	for seed := first; seed < first+runs; seed++ {
		if err := sim.Run(protocol(), seed, sim.Options{Liars: true}); err != nil {
			t.Fatalf("%s\nagain: QIOI_SEED=%d go test -run TestSimulator -v ./internal/orderer/consensus/bft/pbft", err, seed)
		}
		if !until.IsZero() && time.Now().After(until) {
			t.Logf("%d schedules", seed-first)
			return
		}
	}
}
