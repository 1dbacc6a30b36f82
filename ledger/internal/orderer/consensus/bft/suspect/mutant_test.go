package suspect_test

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/mutanttest"
)

// mutants are mistakes of the timer's. The tests of both cores are to notice each.
var mutants = mutanttest.Shared{Mutants: []mutanttest.Mutant{
	mutanttest.New("timeouts stay the same", "suspect.go",
		"func (t *Timer) GaveUp() { t.given++ }", "func (t *Timer) GaveUp() {}"),
}, Telling: []string{"timeouts stay the same"}}

// TestMutantsApply to the source as it is.
func TestMutantsApply(t *testing.T) { mutants.Applies(t) }

// TestMutants shows that the scripts and schedules of both cores would notice a timer without one of its rules.
func TestMutants(t *testing.T) { mutants.Noticed(t) }
