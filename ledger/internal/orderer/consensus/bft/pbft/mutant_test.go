package pbft_test

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
)

func suite() mutanttest.Suite {
	return mutanttest.Suite{
		Mutants: mutants,
		Telling: []string{"the oldest prepared wins", "commits while unvoted", "views left without a record"},
		Known: map[string]uint64{
			"checkpoints of different states": 13,
			"old view changes count":          846,
			"prepared without proof":          254,
		},
		Test: "TestThatNotices",
	}
}

// TestMutantsApply to the source as it is.
func TestMutantsApply(t *testing.T) { suite().Applies(t) }

// TestMutants shows that scripts and simulator would notice a core that lacks any one of its rules.
func TestMutants(t *testing.T) { suite().Noticed(t) }

// TestThatNotices runs in each mutant's build: for TestMutants here, and for those of base and suspect, which name it.
func TestThatNotices(t *testing.T) { mutanttest.Notice(t, pbft.ScriptThatNotices, protocol()) }
