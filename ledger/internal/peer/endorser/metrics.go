package endorser

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
)

// Metrics are Fabric's series for an endorser; a nil *Metrics counts for nobody.
type Metrics struct {
	proposals, successful, invalid prometheus.Counter
	duration                       *prometheus.HistogramVec
}

// NewMetrics registers the series.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "endorser", Name: name, Help: help})
	}
	m := &Metrics{
		proposals:  counter("proposals_received", "The number of proposals received."),
		successful: counter("successful_proposals", "The number of successful proposals."),
		invalid:    counter("proposal_validation_failures", "The number of proposals that have failed initial validation."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "endorser", Name: "proposal_duration", Help: "The time to complete a proposal.",
			Buckets: ops.LatencyBuckets,
		}, []string{"channel", "chaincode", "success"}),
	}
	registry.MustRegister(m.proposals, m.successful, m.invalid, m.duration)
	return m
}

func (m *Metrics) received() {
	if m != nil {
		m.proposals.Inc()
	}
}

func (m *Metrics) refused() {
	if m != nil {
		m.invalid.Inc()
	}
}

// done counts a proposal of a defined chaincode or of a client's invention; only the
// former may make a series of its own, which endorsed tells.
func (m *Metrics) done(channel, chaincode string, endorsed bool, took time.Duration) {
	if m == nil {
		return
	}
	if endorsed {
		m.successful.Inc()
	} else {
		chaincode = ""
	}
	m.duration.WithLabelValues(channel, chaincode, strconv.FormatBool(endorsed)).Observe(took.Seconds())
}
