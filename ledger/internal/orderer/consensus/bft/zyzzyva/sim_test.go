package zyzzyva_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/lies"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/simtest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva/liar"
)

// protocol is small in everything, so that runs come to its bounds.
func protocol() sim.Protocol { return lying(nil) }

// lying has its liars tell each lie.
func lying(told func(lies.Habit)) sim.Protocol {
	return sim.Protocol{
		New: func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			return zyzzyva.New(simConfig(id, group), oracle, state, records)
		},
		Liar: func(rng *rand.Rand, id bft.ID, group bft.Group, oracle bft.Oracle) sim.Liar {
			return liar.New(rng, lies.Config{ID: id, Domain: "ch", Group: group, Window: simWindow, Told: told}, oracle)
		},
		Client: func(group bft.Group, verify func(by bft.ID, data, signature []byte) bool) bft.Client {
			return zyzzyva.NewClient(simClientConfig(group, verify))
		},
		Address:    func(m bft.Message, tx bft.Digest) bft.Message { return zyzzyva.Address(m, tx) },
		HeldAtMost: 5*simWindow + 1, PendingOfEach: simPending, Bound: 2 * time.Minute,
	}
}

const (
	simWindow  = 9
	simPending = 4
)

func simConfig(id bft.ID, group bft.Group) zyzzyva.Config {
	return zyzzyva.Config{
		ID: id, Domain: "ch", Group: group, Interval: 3, Window: simWindow,
		Pending: simPending, PendingBytes: 1 << 16, Settle: 100 * time.Millisecond, Fast: 20 * time.Millisecond,
		Resend: 200 * time.Millisecond, Limits: base.Limits{BatchTxs: 2, BatchBytes: 1 << 10, Timeout: time.Second, MaxTimeout: 16 * time.Second},
	}
}

func simClientConfig(group bft.Group, verify func(by bft.ID, data, signature []byte) bool) zyzzyva.ClientConfig {
	return zyzzyva.ClientConfig{
		Domain: "ch", Group: group, Verify: verify, Fast: 50 * time.Millisecond, Resend: 500 * time.Millisecond, MaxResend: 4 * time.Second,
	}
}

// TestSimulator runs random schedules, see simtest.
func TestSimulator(t *testing.T) {
	simtest.Schedules(t, simtest.Lying{Habits: liar.Habits, Protocol: lying}, "zyzzyva")
}
