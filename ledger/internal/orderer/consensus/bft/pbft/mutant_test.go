package pbft_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
)

// TestMutants shows that scripts and simulator would notice a core that lacks any one of its rules.
func TestMutants(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(pbft.Mutants)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if script := pbft.ScriptThatNotices(t, name); script != "" {
				t.Logf("testdata/%s", script)
				return
			}
			seed, err := mutantSeed(name, 3000)
			require.Error(t, err, "neither a script nor a schedule notices")
			t.Logf("seed %d: %s", seed, err)
		})
	}
}

// mutantSeed is the first schedule that a mutant does not stand.
func mutantSeed(name string, runs uint64) (uint64, error) {
	p := protocol()
	p.New = func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
		return pbft.NewMutant(name, simConfig(id, group), oracle, state, records)
	}
	for seed := range runs {
		if err := sim.Run(p, seed, sim.Options{Liars: true}); err != nil {
			return seed, err
		}
	}
	return 0, nil
}
