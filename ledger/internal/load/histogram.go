package load

import (
	"math"

	dto "github.com/prometheus/client_model/go"
)

// buckets is a Prometheus histogram, or a sum or difference of several with the same bounds.
type buckets struct {
	bounds []float64 // seconds, ascending, without infinity
	counts []float64 // at most the bound, cumulative
	total  float64
	sum    float64 // seconds
}

func (b *buckets) add(h *dto.Histogram, sign float64) {
	if b.bounds == nil {
		for _, bucket := range h.GetBucket() {
			if !math.IsInf(bucket.GetUpperBound(), 1) {
				b.bounds = append(b.bounds, bucket.GetUpperBound())
			}
		}
		b.counts = make([]float64, len(b.bounds))
	}
	for i, bucket := range h.GetBucket() {
		if i < len(b.counts) {
			b.counts[i] += sign * float64(bucket.GetCumulativeCount())
		}
	}
	b.total += sign * float64(h.GetSampleCount())
	b.sum += sign * h.GetSampleSum()
}

// percentile in seconds: linear inside the bucket that it falls into. What is beyond
// the last bound is told as that bound.
func (b *buckets) percentile(share float64) float64 {
	rank := share * b.total
	var lower, below float64
	for i, bound := range b.bounds {
		if b.counts[i] >= rank {
			if b.counts[i] == below {
				return bound
			}
			return lower + (bound-lower)*(rank-below)/(b.counts[i]-below)
		}
		lower, below = bound, b.counts[i]
	}
	return lower
}
