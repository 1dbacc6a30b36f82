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

// TestALateReplicaCatchesUp where it fetches faster than the others order, and answers from then on.
func TestALateReplicaCatchesUp(t *testing.T) {
	const interval, window, every = 16, 64, 100 * time.Millisecond
	p := protocol()
	p.New = func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
		cfg := simConfig(id, group)
		cfg.Interval, cfg.Window, cfg.Overlap, cfg.Settle = interval, window, 4, 0
		return zyzzyva.New(cfg, oracle, state, records)
	}
	p.HeldAtMost = 5*window + 1
	for _, c := range []struct {
		late  int     // entries
		share float64 // of the time in which the others order an entry, to fetch it
	}{{50, 0.1}, {100, 0.7}, {200, 0.7}} {
		t.Run(fmt.Sprintf("%d entries late, fetched in %g of the time", c.late, c.share), func(t *testing.T) {
			caught, err := sim.RunLate(p, sim.Late{
				Entries: c.late, Every: every, Fetch: time.Duration(c.share * float64(every)), For: time.Minute,
				Vote: func(m bft.Message) uint64 {
					if vote, is := m.(*zyzzyva.Response); is {
						return vote.Seq
					}
					return 0
				},
			})
			require.NoError(t, err)
			t.Logf("%+v", caught)
			assert.NotZero(t, caught.Up)
			assert.Greater(t, caught.Voted, caught.Ordered/2)
		})
	}
}
