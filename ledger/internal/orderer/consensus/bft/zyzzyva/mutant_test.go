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
		Known: map[string]uint64{
			"a new view of fewer than a quorum":        550,
			"a new view of one replica's many changes": 27,
			"anybody orders":                           108,
			"certificates of clients without proof":    16,
			"local commits before they are durable":    166,
			"no high mark":                             12,
			"old view changes count":                   161,
			"responses of another history count":       493,
			"transactions without a signature":         421,
			"view changes without a signature":         76,
		},
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
