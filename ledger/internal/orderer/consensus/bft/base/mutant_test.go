package base_test

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"
)

// mutants are mistakes in what the cores have in common. The tests of both cores are to notice each.
var mutants = mutanttest.Shared{Mutants: []mutanttest.Mutant{
	mutanttest.New("quorum one too small", "replica.go",
		"func quorumOf(g bft.Group) int { return g.Quorum() }", "func quorumOf(g bft.Group) int { return max(g.Quorum()-1, 1) }"),
	mutanttest.New("one replica's word for f+1", "replica.go",
		"return r.Group.Weak()", "return max(r.Group.Faulty(), 1)"),
	mutanttest.New("what waits is not checked again", "progress.go",
		"	if r.Configured() {\n", "	if false {\n"),
	mutanttest.New("limits stay as they were", "progress.go", "		r.Pending.Limit(now.BatchTxs, now.BatchBytes)\n", ""),
	mutanttest.New("a client's transaction stays another's", "pending.go",
		"return r.Pending.Adopt(", "return false && r.Pending.Adopt("),
}, Telling: []string{"quorum one too small"}}

// TestMutantsApply to the source as it is.
func TestMutantsApply(t *testing.T) { mutants.Applies(t) }

// TestMutants shows that the scripts and schedules of both cores would notice a mistake in what they have in common.
func TestMutants(t *testing.T) { mutants.Noticed(t) }
