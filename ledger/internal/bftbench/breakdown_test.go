package bftbench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/resultfile"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// stages are samples of a replica whose batch stage has done something, and whose worker executes.
func stages(batch stage.Sample) []stage.Sample {
	all := make([]stage.Sample, len(stage.Names))
	for i, name := range stage.Names {
		all[i] = stage.Sample{Name: name, Threads: 1, Capacity: 64}
		switch name {
		case stage.Input:
			all[i].Capacity = 0
		case stage.Batch:
			all[i] = batch
		case stage.Execute:
			all[i] = stage.Sample{Name: name}
		}
	}
	return all
}

func TestTheBreakdownIsOfAllReplicas(t *testing.T) {
	all := stage.Breakdown([][]stage.Sample{
		stages(stage.Sample{Name: stage.Batch, Threads: 2, Capacity: 16384, Units: 100, Busy: 4, Waited: 30}),
		stages(stage.Sample{Name: stage.Batch, Threads: 2, Capacity: 16384, Units: 300, Busy: 16, Waited: 50}),
	}, 10)
	require.Len(t, all, len(stage.Names))
	assert.Equal(t, stage.Times{
		Stage: stage.Batch, Threads: 2, Rate: 40, Wait: 200, Service: 50, Saturation: 0.8, Most: bft.ID(2), Queue: 4, Capacity: 16384,
	}, all[1])
	lines := strings.Split(breakdownText(all), "\n")
	assert.Equal(t, []string{"input", "0", "-", "0.000", "0%", "0", "-"}, strings.Fields(lines[2]), "without a queue")
	assert.Equal(t, []string{"batch", "40", "200.000", "50.000", "80%", "2", "4.0", "of", "16384"}, strings.Fields(lines[3]))
	assert.Equal(t, "execute     the worker does it", lines[5])
}

// TestAReplicaCountsByItsOwnClock: one that is asked early and late, and one that is asked as the window begins and ends,
// work alike.
func TestAReplicaCountsByItsOwnClock(t *testing.T) {
	var before, after samples
	for _, seconds := range []float64{20, 10} {
		before.of = append(before.of, replica.Sample{At: 100, Stages: stages(stage.Sample{Name: stage.Batch, Threads: 1, Capacity: 64})})
		after.of = append(after.of, replica.Sample{
			At: 100 + seconds, Process: stage.Process{CPU: 0.5 * seconds, System: 0.25 * seconds},
			Stages: stages(stage.Sample{
				Name: stage.Batch, Threads: 1, Capacity: 64,
				Units: int64(40 * seconds), Known: int64(40 * seconds), Busy: 0.75 * seconds, CPU: 0.5 * seconds, Waited: 3 * seconds,
			}),
		})
	}
	s := &session{members: make([]member, 2), breakdown: true}
	found := &Result{Throughput: 1000, Seconds: 10, Stages: map[string]float64{}}
	s.addReplicas(found, before, after)
	for _, one := range found.Replicas {
		assert.InDelta(t, 500, one.CPU, 1e-6)
		assert.InDelta(t, 250, one.System, 1e-6)
		assert.InDelta(t, 500, one.Stages[1].CPU, 1e-6)
		assert.InDelta(t, 0.75, one.Stages[1].Saturation, 1e-6)
		assert.InDelta(t, 3, one.Stages[1].Queue, 1e-6)
	}
	assert.InDelta(t, 1000, found.Stages[stage.Batch], 1e-6)
	all := found.Breakdown[1]
	assert.InDelta(t, 80, all.Rate, 1e-6)
	assert.InDelta(t, 0.75, all.Saturation, 1e-6)
	assert.InDelta(t, 3, all.Queue, 1e-6)
	assert.InDelta(t, 75, all.Wait, 1e-6)
}

// TestARunTellsItsBreakdown as text and as JSON.
func TestARunTellsItsBreakdown(t *testing.T) {
	run := small()
	run.Stages.Batch, run.Stages.Execute = 1, 0
	always := []string{stage.Batch, stage.Worker, stage.Output} // every transaction's way
	options := brief
	assert.Empty(t, measured(t, run, options).Breakdown, "nobody asked")
	options.Breakdown = true
	found := measured(t, run, options)
	for slices.ContainsFunc(found.Breakdown, func(s stage.Times) bool { return s.Rate == 0 && slices.Contains(always, s.Stage) }) {
		options.Duration *= 2 // the host has given them no time
		found = measured(t, run, options)
	}
	require.Len(t, found.Breakdown, len(stage.Names))
	for _, s := range found.Breakdown {
		switch {
		case s.Stage == stage.Input:
			assert.Zero(t, s.Capacity)
			assert.Zero(t, s.Wait)
		case s.Stage == stage.Execute:
			assert.Equal(t, stage.Times{Stage: stage.Execute}, s, "the worker does it")
		case slices.Contains(always, s.Stage):
			assert.Positive(t, s.Capacity, s.Stage)
			assert.Positive(t, s.Wait, s.Stage)
			assert.Positive(t, s.Service, s.Stage)
			assert.Positive(t, s.Queue, s.Stage)
			assert.Positive(t, s.Most, s.Stage)
		}
	}
	file := filepath.Join(t.TempDir(), "result.json")
	var text bytes.Buffer
	require.NoError(t, resultfile.Tell(found, file, &text))
	assert.Contains(t, text.String(), breakdownText(found.Breakdown))
	document, err := os.ReadFile(file)
	require.NoError(t, err)
	var read Result
	require.NoError(t, json.Unmarshal(document, &read))
	assert.Equal(t, found.Breakdown, read.Breakdown)
}
