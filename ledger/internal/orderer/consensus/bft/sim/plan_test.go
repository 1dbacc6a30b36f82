package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestOneReplicaComesForAnother in some schedules, under an id that nobody had. No group is too small to have one that lies.
func TestOneReplicaComesForAnother(t *testing.T) {
	replaced := 0
	for seed := range uint64(1000) {
		p := newPlan(rand.New(rand.NewPCG(seed, 0x51)), Options{Ends: true})
		newest := bft.ID(0)
		for i, g := range p.groups {
			require.GreaterOrEqual(t, len(g), 4, "seed %d: %v", seed, p.groups)
			require.IsIncreasing(t, g, "seed %d: %v", seed, p.groups)
			for _, id := range g {
				if i > 0 && !slices.Contains(p.groups[i-1], id) {
					require.Greater(t, id, newest, "seed %d: %v: who has left comes back", seed, p.groups)
				}
			}
			last := g[len(g)-1]
			if i > 0 && len(g) == len(p.groups[i-1]) && last > newest {
				replaced++
			}
			newest = max(newest, last)
		}
	}
	assert.Positive(t, replaced)
}
