package zyzzyva_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// lateInterval, lateWindow and latePending are those of the replicas of which one starts late.
const lateInterval, lateWindow, latePending = 16, 64, 64

// runLate has a replica start late, while the others order an entry each 100 ms.
func runLate(t *testing.T, s sim.Late, share float64) sim.Caught {
	most := 0
	p := protocol()
	p.New = func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
		cfg := simConfig(id, group)
		cfg.Interval, cfg.Window, cfg.Pending, cfg.Overlap, cfg.Settle = lateInterval, lateWindow, latePending, 4, 0
		return &placed{zyzzyva.New(cfg, oracle, state, records), &most}
	}
	p.HeldAtMost, p.PendingOfEach = 5*lateWindow+1, latePending
	s.Every = 100 * time.Millisecond
	s.Fetch, s.For = time.Duration(share*float64(s.Every)), time.Minute
	s.Vote = func(m bft.Message) uint64 {
		if vote, is := m.(*zyzzyva.Response); is {
			return vote.Seq
		}
		return 0
	}
	caught, err := sim.RunLate(p, s)
	require.NoError(t, err)
	t.Logf("%+v, places %d", caught, most)
	assert.LessOrEqual(t, most, 3*lateWindow)
	return caught
}

// placed is a core that keeps the places of so many transactions at most.
type placed struct {
	*zyzzyva.Core
	most *int
}

// Step implements bft.Core.
func (p *placed) Step(now bft.Time, in bft.Input) bft.Effects {
	e := p.Core.Step(now, in)
	*p.most = max(*p.most, p.Places())
	return e
}

// TestALateReplicaAnswers what the others order meanwhile, however many entries it lacks, and however slowly it fetches them: the
// history that its stable checkpoint names is certified. It catches up where it fetches faster than the others order.
func TestALateReplicaAnswers(t *testing.T) {
	for _, c := range []struct {
		late   int     // entries
		share  float64 // of the time in which the others order an entry, to fetch it
		config int     // entries since its start when a configuration comes; 0: none comes
		up     bool
		votes  float64 // the share of the entries since its start that it answers at least
	}{
		{late: 50, share: 0.1, up: true, votes: 0.95},
		{late: 100, share: 0.7, up: true, votes: 0.95},
		{late: 200, share: 0.7, up: true, votes: 0.95},
		{late: 100, share: 1.5, votes: 0.95},
		{late: 200, share: 1.5, votes: 0.95},
		{late: 100, share: 0.8, config: 50, up: true, votes: 0.6},
	} {
		t.Run(fmt.Sprintf("%d entries late, fetched in %g of the time, a configuration after %d", c.late, c.share, c.config), func(t *testing.T) {
			caught := runLate(t, sim.Late{Entries: c.late, Config: c.config}, c.share)
			assert.Equal(t, c.up, caught.Up != 0)
			assert.Greater(t, float64(caught.Voted), c.votes*float64(caught.Ordered))
		})
	}
}

// TestALateReplicaMakesAQuorum with two others when their leader dies: they begin a view and go on in it, for no more than a
// window beyond a checkpoint that the late replica has still to fetch.
func TestALateReplicaMakesAQuorum(t *testing.T) {
	for _, late := range []int{100, 200, 400} {
		t.Run(fmt.Sprintf("%d entries late", late), func(t *testing.T) {
			caught := runLate(t, sim.Late{Entries: late, Dies: 20}, 1)
			assert.NotZero(t, caught.Up)
			assert.Greater(t, caught.Without, lateWindow/2)
			assert.LessOrEqual(t, caught.Without, lateWindow+lateInterval)
		})
	}
}
