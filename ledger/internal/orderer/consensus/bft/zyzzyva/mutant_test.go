package zyzzyva_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/simtest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// TestMutants shows that scripts and simulator would notice a core that lacks any one of its rules.
func TestMutants(t *testing.T) {
	simtest.Mutants{
		Names:  slices.Collect(maps.Keys(zyzzyva.Mutants)),
		Script: zyzzyva.ScriptThatNotices,
		Protocol: func(name string) sim.Protocol {
			p := protocol()
			p.New = func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
				return zyzzyva.NewMutant(name, simConfig(id, group), oracle, state, records)
			}
			return p
		},
		Sound: protocol(),
	}.Noticed(t)
}

// TestClientMutants shows the same of a client that lacks any one of its rules.
func TestClientMutants(t *testing.T) {
	simtest.Mutants{
		Names:  slices.Collect(maps.Keys(zyzzyva.ClientMutants)),
		Script: zyzzyva.ScriptThatNoticesClient,
		Protocol: func(name string) sim.Protocol {
			p := protocol()
			p.Client = func(group bft.Group, verify func(by bft.ID, data, signature []byte) bool) bft.Client {
				return zyzzyva.NewClientMutant(name, simClientConfig(group, verify))
			}
			return p
		},
		Sound: protocol(),
	}.Noticed(t)
}
