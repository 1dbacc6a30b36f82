package pbft_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/simtest"
)

// TestMutants shows that scripts and simulator would notice a core that lacks any one of its rules.
func TestMutants(t *testing.T) {
	simtest.Mutants{
		Names:  slices.Collect(maps.Keys(pbft.Mutants)),
		Script: pbft.ScriptThatNotices,
		Known: map[string]uint64{
			"checkpoints of different states": 13,
			"old view changes count":          218,
			"prepared without proof":          185,
		},
		Protocol: func(name string) sim.Protocol {
			p := protocol()
			p.Draw = drawn(func(cfg pbft.Config, oracle bft.Oracle, state bft.State, records []bft.Record) *pbft.Core {
				return pbft.NewMutant(name, cfg, oracle, state, records)
			})
			return p
		},
		Sound: protocol(),
	}.Noticed(t)
}
