package chain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/ops/opstest"
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
	of := func(name, stage string) float64 {
		return opstest.Value(t, registry, "qioi_pipeline_"+name, fmt.Sprintf("stage=%q", stage))
	}
	for _, stage := range []string{"verify", "commit", "flush"} {
		assert.Positive(t, of("busy_seconds_total", stage), stage)
		assert.GreaterOrEqual(t, of("queue_depth", stage), 0.0, stage)
	}
	assert.Zero(t, of("queue_depth", "commit"))
	assert.Zero(t, of("queue_depth", "flush"))
	for _, stage := range []string{"validate", "flush"} {
		assert.EqualValues(t, 20, of("stage_seconds_count", stage), stage)
		assert.Positive(t, of("stage_seconds_sum", stage), stage)
	}
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
	assert.EqualValues(t, 3, opstest.Value(t, registry, "ledger_transaction_count"))
	assert.EqualValues(t, 1, opstest.Value(t, registry, "ledger_transaction_count", `chaincode="kv:1.0"`))
	assert.EqualValues(t, 2, opstest.Value(t, registry, "ledger_transaction_count", `chaincode="other:"`))
}
