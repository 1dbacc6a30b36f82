package zyzzyva_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/sim"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// again is a core that is compared with one that starts with the same records, in some steps after a view has begun.
type again struct {
	*zyzzyva.Core
	start    func(state bft.State, records []bft.Record) *zyzzyva.Core
	records  []bft.Record
	compares int // how many of the next steps that write records are compared
	differs  func(live, again *zyzzyva.ViewChange)
	kept     *int // beginnings after which entries stayed
}

// Step implements bft.Core.
func (a *again) Step(now bft.Time, in bft.Input) bft.Effects {
	e := a.Core.Step(now, in)
	a.records = append(a.records, e.Persist...)
	for _, r := range e.Persist {
		if start, is := r.(*zyzzyva.StartRecord); is {
			a.compares = 4
			if start.Final > start.Certificate.Seq {
				*a.kept++
			}
		}
	}
	if a.compares == 0 || len(e.Persist) == 0 {
		return e
	}
	a.compares--
	if live, whole := a.Promised(); whole {
		other, _ := a.start(bft.State{Applied: a.View().Applied}, slices.Clone(a.records)).Promised()
		a.differs(live, other)
	}
	return e
}

// Records implements bft.Core.
func (a *again) Records() []bft.Record {
	a.records = a.Core.Records()
	return a.records
}

// TestARestartPromisesTheSame as the replica that did not crash, after views have begun in random schedules.
func TestARestartPromisesTheSame(t *testing.T) {
	kept, seed, schedules := 0, uint64(0), 1200
	if testing.Short() {
		schedules = 600
	}
	p := protocol()
	p.New = func(id bft.ID, group bft.Group, oracle bft.Oracle, state bft.State, records []bft.Record) bft.Core {
		start := func(state bft.State, records []bft.Record) *zyzzyva.Core {
			return zyzzyva.New(simConfig(id, group), oracle, state, records)
		}
		return &again{Core: start(state, records), start: start, records: slices.Clone(records), kept: &kept, differs: func(live, other *zyzzyva.ViewChange) {
			require.Equal(t, live.View, other.View, seed)
			require.Equal(t, live.Stable.Seq, other.Stable.Seq, seed)
			require.Equal(t, live.Digests, other.Digests, seed)
			require.Equal(t, live.Certificate.View, other.Certificate.View, seed)
			require.Equal(t, live.Certificate.Seq, other.Certificate.Seq, seed)
		}}
	}
	for seed = range uint64(schedules) {
		require.NoError(t, sim.Run(p, seed, sim.Options{Liars: true}), seed)
	}
	require.Positive(t, kept, "no view began where more was final")
}
