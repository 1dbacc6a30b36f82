package opstest

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
)

func TestSeriesAreWrittenAsPrometheusDoes(t *testing.T) {
	registry := prometheus.NewRegistry()
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "counts"}, []string{"a", "b"})
	times := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "times", Buckets: []float64{1}})
	registry.MustRegister(counts, times)
	assert.True(t, math.IsNaN(Value(t, registry, "counts")), "there are none")
	counts.WithLabelValues("x", "1").Add(2)
	counts.WithLabelValues("x", "").Add(3)
	counts.WithLabelValues("y", "1").Add(5)
	times.Observe(0.5)
	times.Observe(1.5)
	assert.Equal(t, map[string]float64{
		`counts{a="x",b="1"}`: 2, `counts{a="x",b=""}`: 3, `counts{a="y",b="1"}`: 5,
		`times_bucket{le="1"}`: 1, `times_bucket{le="+Inf"}`: 2, "times_sum": 2, "times_count": 2,
	}, Series(t, registry))
	for _, c := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"counts", nil, 10}, {"counts", []string{`a="x"`}, 5}, {"counts", []string{`b="1"`, `a="x"`}, 2}, {"counts", []string{`b=""`}, 3}, {"times_count", nil, 2},
	} {
		assert.Equal(t, c.value, Value(t, registry, c.name, c.labels...), "%s %v", c.name, c.labels)
	}
	assert.True(t, math.IsNaN(Value(t, registry, "counts", `a="z"`)))
	assert.True(t, math.IsNaN(Value(t, registry, "count")))
}
