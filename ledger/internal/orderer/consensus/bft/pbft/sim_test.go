package pbft_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft/liar"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/simtest"
)

// protocol is small in everything, so that runs come to its bounds.
func protocol() sim.Protocol { return lying(nil) }

// lying has its liars tell each lie.
func lying(told func(lies.Habit)) sim.Protocol {
	return sim.Protocol{
		Draw: drawn,
		Liar: func(rng *rand.Rand, id bft.ID, group bft.Group, oracle bft.Oracle) sim.Liar {
			return liar.New(rng, lies.Config{ID: id, Domain: "ch", Group: group, Window: simWindow, Told: told}, oracle)
		},
		HeldAtMost: 2*simWindow + 1, PendingOfEach: simPending, Bound: 2 * time.Minute,
	}
}

const (
	simWindow  = 9
	simPending = 4
)

// drawn has no spares in half of the runs.
func drawn(rng *rand.Rand) func(bft.ID, bft.Group, bft.Oracle, bft.State, []bft.Record) bft.Core {
	wait := []bft.Time{0, 0, 0, 20 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}[rng.IntN(6)]
	return func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
		cfg := simConfig(id, group)
		cfg.SpareWait = wait
		return pbft.New(cfg, oracle, state, records)
	}
}

func simConfig(id bft.ID, group bft.Group) pbft.Config {
	return pbft.Config{
		ID: id, Domain: "ch", Group: group, Interval: 3, Window: simWindow, Overlap: 4, ProposeAtOnce: true, Pace: 20 * time.Millisecond, MostPace: 60 * time.Millisecond, MarkWait: 30 * time.Millisecond,
		Pending: simPending, PendingBytes: 1 << 16, Resend: 200 * time.Millisecond,
		Limits: base.Limits{BatchTxs: 2, BatchBytes: 1 << 10, Timeout: time.Second, MaxTimeout: 16 * time.Second},
	}
}

// TestSimulator runs random schedules, see simtest.
func TestSimulator(t *testing.T) {
	simtest.Schedules(t, simtest.Lying{Habits: liar.Habits, Protocol: lying}, "pbft")
}

// TestSchedulesThatFailed before something was mended.
func TestSchedulesThatFailed(t *testing.T) {
	for what, seed := range map[string]uint64{
		// Two of five have applied the entry that ends an epoch, and were restarted; the votes that decided the entries before it
		// went with that, and the three that lack some never saw a view in which these were voted for again.
		"the end of an epoch waits for replicas that need another view": 11305,
	} {
		t.Run(what, func(t *testing.T) { require.NoError(t, sim.Run(protocol(), seed, sim.Options{Ends: true})) })
	}
}
