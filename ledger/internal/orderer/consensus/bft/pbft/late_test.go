package pbft_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
)

// TestALateReplicaVotes for what the others order meanwhile, however many entries it lacks, and however slowly it fetches them:
// votes need no execution. It catches up where it fetches faster than the others order. Where a new configuration comes, it votes
// for no more than two windows until it has fetched that, and for all from then on.
func TestALateReplicaVotes(t *testing.T) {
	const interval, window, pending, every = 16, 64, 64, 20 * time.Millisecond
	p := sim.Protocol{
		New: func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			cfg := simConfig(id, group)
			cfg.Interval, cfg.Window, cfg.Pending = interval, window, pending
			return pbft.New(cfg, oracle, state, records)
		},
		HeldAtMost: 2*window + 1, PendingOfEach: pending, Bound: 2 * time.Minute,
	}
	for _, c := range []struct {
		late  int     // entries
		share float64 // of the time in which the others order an entry, to fetch it
		after int     // entries since its start when a configuration comes; 0: none comes
		up    bool
		votes float64 // the share of the entries since its start for which it votes at least
	}{
		{late: 50, share: 0.1, up: true, votes: 0.95},
		{late: 100, share: 0.7, up: true, votes: 0.95},
		{late: 500, share: 0.7, up: true, votes: 0.95},
		{late: 100, share: 1.5, votes: 0.95},
		{late: 500, share: 1.5, votes: 0.95},
		{late: 100, share: 0.9, after: 50, up: true, votes: 0.95},
		{late: 100, share: 1.5, after: 50, votes: 0.9},
	} {
		t.Run(fmt.Sprintf("%d entries late, fetched in %g of the time, a configuration after %d", c.late, c.share, c.after), func(t *testing.T) {
			caught, err := sim.RunLate(p, sim.Late{
				Entries: c.late, Every: every, Fetch: time.Duration(c.share * float64(every)), For: 40 * time.Second, Config: c.after,
				Vote: func(m bft.Message) uint64 {
					if vote, is := m.(*pbft.Prepare); is {
						return vote.Seq
					}
					return 0
				},
			})
			require.NoError(t, err)
			t.Logf("%+v", caught)
			assert.Greater(t, caught.Ordered, 1500)
			assert.Greater(t, float64(caught.Voted), c.votes*float64(caught.Ordered))
			assert.Equal(t, c.up, caught.Up != 0)
		})
	}
}
