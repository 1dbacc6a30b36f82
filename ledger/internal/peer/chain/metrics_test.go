package chain

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
)

// TestEveryStageShowsItsWork: what has passed through left working time in each stage, and nothing waits.
func TestEveryStageShowsItsWork(t *testing.T) {
	w := streamWorld(t)
	registry := prometheus.NewRegistry()
	r := startRig(t, w, t.TempDir(), Options{Metrics: NewMetrics(registry)})
	for range 20 {
		raw, _ := w.Make(peertest.Tx{})
		r.add(raw)
	}
	r.seal()
	r.settle()
	families, err := registry.Gather()
	require.NoError(t, err)
	busy, depth, took := map[string]float64{}, map[string]float64{}, map[string]uint64{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, label := range m.Label {
				switch {
				case label.GetName() != "stage":
				case f.GetName() == "qioi_pipeline_busy_seconds_total":
					busy[label.GetValue()] = m.Counter.GetValue()
				case f.GetName() == "qioi_pipeline_queue_depth":
					depth[label.GetValue()] = m.Gauge.GetValue()
				case f.GetName() == "qioi_pipeline_stage_seconds":
					assert.Positive(t, m.Histogram.GetSampleSum(), label.GetValue())
					took[label.GetValue()] = m.Histogram.GetSampleCount()
				}
			}
		}
	}
	for _, stage := range []string{"verify", "commit", "flush"} {
		assert.Positive(t, busy[stage], stage)
		assert.Contains(t, depth, stage)
	}
	assert.Zero(t, depth["commit"]+depth["flush"])
	assert.Equal(t, map[string]uint64{"validate": 20, "flush": 20}, took)
}

// TestLongNamesAreNotShown: a transaction that nobody has endorsed may name any chaincode, and its version.
func TestLongNamesAreNotShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := startRig(t, streamWorld(t), t.TempDir(), Options{Metrics: NewMetrics(registry)})
	for _, tx := range []*validate.Tx{
		{Chaincode: "kv", Version: "1.0"}, {Chaincode: "kv", Version: strings.Repeat("1", maxLabel)}, {Chaincode: strings.Repeat("k", maxLabel+1)},
	} {
		r.metrics.transaction(tx, valid)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, label := range m.Label {
				if label.GetName() == "chaincode" {
					shown[label.GetValue()] = m.Counter.GetValue()
				}
			}
		}
	}
	assert.Equal(t, map[string]float64{"kv:1.0": 1, "other:": 2}, shown)
}
