package ops

import "github.com/prometheus/client_golang/prometheus"

// LatencyBuckets are bounds in seconds for what takes from 50 us to 10 s. Each is 1.5 times the
// one before, so that a percentile read out of them is right to within a fifth.
var LatencyBuckets = prometheus.ExponentialBuckets(50e-6, 1.5, 31)
