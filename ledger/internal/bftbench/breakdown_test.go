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
