package opstest

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
)

// Series are the values of all series, by name and labels as Prometheus writes them: name{label="value"}. A histogram has
// name_count, name_sum and its buckets. It may be called from any goroutine.
func Series(t testing.TB, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	assert.NoError(t, err)
	var page bytes.Buffer
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&page, family)
		assert.NoError(t, err)
	}
	series := map[string]float64{}
	for line := range strings.Lines(page.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		assert.NoError(t, err)
		series[line[:at]] = value
	}
	return series
}

// Value is the sum of the series of a name that have all of these labels, each as label="value"; NaN where there are none.
func Value(t testing.TB, from prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	sum := math.NaN()
	for key, value := range Series(t, from) {
		its, braced, _ := strings.Cut(key, "{")
		has := strings.Split(strings.TrimSuffix(braced, "}"), ",")
		if its != name || slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(has, label) }) {
			continue
		}
		if math.IsNaN(sum) {
			sum = 0
		}
		sum += value
	}
	return sum
}
