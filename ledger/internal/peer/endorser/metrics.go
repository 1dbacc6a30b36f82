package endorser

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
)

// Metrics are Fabric's series for an endorser; a nil *Metrics counts nothing.
type Metrics struct {
	proposals, successful, invalid prometheus.Counter
	duration                       *prometheus.HistogramVec
	// denied by policy, of a taken id, not simulated, not endorsed.
	denied, duplicate, simulation, endorsement *prometheus.CounterVec
}

// NewMetrics registers the series.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "endorser", Name: name, Help: help})
	}
	failures := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "endorser", Name: name, Help: help}, append([]string{"channel", "chaincode"}, more...))
	}
	m := &Metrics{
		denied:      failures("proposal_acl_failures", "The number of proposals that failed ACL checks."),
		duplicate:   failures("duplicate_transaction_failures", "The number of failed proposals due to duplicate transaction ID."),
		simulation:  failures("proposal_simulation_failures", "The number of failed proposal simulations."),
		endorsement: failures("endorsement_failures", "The number of failed endorsements.", "chaincodeerror"),
		proposals:   counter("proposals_received", "The number of proposals received."),
		successful:  counter("successful_proposals", "The number of successful proposals."),
		invalid:     counter("proposal_validation_failures", "The number of proposals that have failed initial validation."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "endorser", Name: "proposal_duration", Help: "The time to complete a proposal.",
			Buckets: ops.LatencyBuckets,
		}, []string{"channel", "chaincode", "success"}),
	}
	registry.MustRegister(m.denied, m.duplicate, m.simulation, m.endorsement, m.proposals, m.successful, m.invalid, m.duration)
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

// failure picks one of the series of failures.
type failure func(*Metrics) *prometheus.CounterVec

func denied(m *Metrics) *prometheus.CounterVec     { return m.denied }
func duplicate(m *Metrics) *prometheus.CounterVec  { return m.duplicate }
func simulation(m *Metrics) *prometheus.CounterVec { return m.simulation }

// failed counts a failure of a proposal. Only a chaincode that the channel has makes a series of its own.
func (m *Metrics) failed(of failure, bundle *channelconfig.Bundle, chaincode string) {
	if m != nil {
		of(m).WithLabelValues(bundle.ChannelID, defined(bundle, chaincode)).Inc()
	}
}

// unendorsed counts what a chaincode answered that is not endorsed.
func (m *Metrics) unendorsed(bundle *channelconfig.Bundle, chaincode string) {
	if m != nil {
		m.endorsement.WithLabelValues(bundle.ChannelID, defined(bundle, chaincode), "true").Inc()
	}
}

// defined is the name of a chaincode that the channel has; empty for any other name that a client sends.
func defined(bundle *channelconfig.Bundle, chaincode string) string {
	if bundle.Chaincodes[chaincode] == nil && !channelconfig.IsSystemChaincode(chaincode) {
		return ""
	}
	return chaincode
}

// done counts a proposal. Only a chaincode that the channel has may make a series of
// its own, which endorsed tells.
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
