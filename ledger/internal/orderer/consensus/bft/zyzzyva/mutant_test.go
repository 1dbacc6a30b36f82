package zyzzyva_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

func suite() mutanttest.Suite {
	return mutanttest.Suite{
		Mutants: mutants,
		Telling: []string{"a view begins without a quorum's confirms", "responses before they are durable"},
		Known: map[string]uint64{
			"a new view of fewer than a quorum":        450,
			"a new view of one replica's many changes": 88,
			"anybody orders":                           432,
			"certificates of clients without proof":    414,
			"local commits before they are durable":    321,
			"no high mark":                             12,
			"old view changes count":                   157,
			"responses of another history count":       2108,
			"view changes without a signature":         88,
		},
		Test: "TestThatNotices",
	}
}

func clientSuite() mutanttest.Suite {
	return mutanttest.Suite{
		Mutants: clientMutants, Telling: []string{"a certificate is for what few have there"},
		Test: "TestThatNotices",
	}
}

// TestMutantsApply to the source as it is.
func TestMutantsApply(t *testing.T) {
	suite().Applies(t)
	clientSuite().Applies(t)
}

// TestMutants shows that scripts and simulator would notice a core that lacks any one of its rules.
func TestMutants(t *testing.T) { suite().Noticed(t) }

// TestClientMutants shows the same of a client that lacks any one of its rules.
func TestClientMutants(t *testing.T) { clientSuite().Noticed(t) }

// TestThatNotices runs in each mutant's build: for the tests of mutants here, and for those of base and suspect, which name it.
func TestThatNotices(t *testing.T) { mutanttest.Notice(t, zyzzyva.ScriptThatNotices, protocol()) }

// TestUnsafeAsPublished shows what the view change as first published lets happen: in the schedule of the script
// published/unsafe correct replicas apply different entries. The script testdata/unsafe_repaired is the same schedule with
// the rule in force.
func TestUnsafeAsPublished(t *testing.T) {
	// The mutant's build alone runs the script. A test's result is cached by the files that the test itself has read.
	_, err := os.ReadFile("published/unsafe")
	require.NoError(t, err)
	asPublished.Passes(t, "TestScriptsAsPublished/unsafe")
}
