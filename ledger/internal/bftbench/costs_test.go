package bftbench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/simulate"
)

// TestEachLoadCollectsItsOwnGarbage, though the core's steps were measured beside another one.
func TestEachLoadCollectsItsOwnGarbage(t *testing.T) {
	one, other := small(), small()
	other.Load.Records *= 2
	costs := &Costs{Parts: map[string]simulate.Costs{}, Cores: map[string]simulate.Core{}}
	for i, run := range []plan.Run{one, other} {
		kept := parts{partsVersion, run.Replicas, run.Requests(), run.Auth, run.Execution, run.Load, busyPart(run)}
		costs.Parts[fmt.Sprintf("%+v", kept)] = simulate.Costs{Garbage: float64(i + 1)}
	}
	kept := core{stepsVersion, one.Protocol, one.Replicas, one.Interval(), busyPart(one)}
	costs.Cores[fmt.Sprintf("%+v", kept)] = simulate.Core{Spell: 10, Read: 20, Step: map[string]time.Duration{"submit": 30}, Bytes: 100}
	for range 2 { // what is kept stays as it is
		for i, run := range []plan.Run{one, other} {
			found, err := costs.of(t.Context(), run)
			require.NoError(t, err)
			garbage := time.Duration(100 * (i + 1))
			assert.Equal(t, 10+garbage, found.Spell)
			assert.Equal(t, 20+garbage, found.Read)
			assert.Equal(t, 30+garbage, found.Step["submit"])
		}
	}
}

// TestCostsOfAnotherStatementAreMeasuredAnew: an older version has kept what a signature of fewer bytes takes.
func TestCostsOfAnotherStatementAreMeasuredAnew(t *testing.T) {
	run := small()
	older := fmt.Sprintf("{Replicas:%d Requests:%d Auth:%s Execution:%s Load:%+v Beside:%v}",
		run.Replicas, run.Requests(), run.Auth, run.Execution, run.Load, busyPart(run))
	costs := &Costs{Parts: map[string]simulate.Costs{older: {Verify: 1}}, Cores: map[string]simulate.Core{}}
	found, err := costs.of(t.Context(), run)
	require.NoError(t, err)
	assert.Greater(t, found.Verify, time.Microsecond)
}
