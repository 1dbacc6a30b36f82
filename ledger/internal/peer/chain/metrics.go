package chain

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
)

// Metrics are Fabric's series for a ledger, and the depth of each stage's queue. One
// set serves all channels of a peer; a nil *Metrics counts nothing.
type Metrics struct {
	registry     prometheus.Registerer
	transactions *prometheus.CounterVec
	height       *prometheus.GaugeVec
	processing   *prometheus.HistogramVec
	storage      *prometheus.HistogramVec
	state        *prometheus.HistogramVec
	stages       *prometheus.HistogramVec
	told         *prometheus.CounterVec
}

// Fabric's buckets, in seconds.
var commitBuckets = []float64{0.005, 0.01, 0.015, 0.05, 0.1, 1, 10}

// NewMetrics registers the series.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "ledger", Name: name, Help: help, Buckets: commitBuckets}, []string{"channel"})
	}
	m := &Metrics{
		registry: registry,
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "ledger", Name: "transaction_count", Help: "Number of transactions processed.",
		}, []string{"channel", "transaction_type", "chaincode", "validation_code"}),
		height: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "ledger", Name: "blockchain_height", Help: "Height of the chain in blocks.",
		}, []string{"channel"}),
		processing: histogram("block_processing_time", "Time taken in seconds for ledger block processing."),
		storage:    histogram("blockstorage_and_pvtdata_commit_time", "Time taken in seconds for committing the block to storage."),
		state:      histogram("statedb_commit_time", "Time taken in seconds for committing block changes to state db."),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "qioi", Subsystem: "pipeline", Name: "stage_seconds", Buckets: ops.LatencyBuckets,
			Help: "Time of a transaction, waiting included: validate is from its arrival to its verdict and state, flush from there until it is durable.",
		}, []string{"channel", "stage"}),
	}
	m.told = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "pipeline", Name: "told_total",
		Help: "Transactions that clients may be told of: by words where enough orderers have said the same running hash, else by the seal.",
	}, []string{"channel", "by"})
	registry.MustRegister(m.transactions, m.height, m.processing, m.storage, m.state, m.stages, m.told)
	return m
}

// seriesKey finds a transaction's counter without building label values each time.
type seriesKey struct {
	chaincode, version string
	kind               int32
	code               Code
}

// channelMetrics are one channel's; only stage 3 uses them.
type channelMetrics struct {
	all    *Metrics
	id     string
	series map[seriesKey]prometheus.Counter

	validate, flush prometheus.Observer
	words, seals    prometheus.Counter
}

// maxSeries bounds what clients' chaincode names and versions can make of /metrics.
const maxSeries = 1000

// maxLabel bounds the length of a name and version together; Fabric's own names are short.
const maxLabel = 200

func (m *Metrics) channel(c *Chain) *channelMetrics {
	if m == nil {
		return nil
	}
	cm := &channelMetrics{all: m, id: c.ID(), series: map[seriesKey]prometheus.Counter{}}
	cm.validate, cm.flush = m.stages.WithLabelValues(cm.id, "validate"), m.stages.WithLabelValues(cm.id, "flush")
	cm.words, cm.seals = m.told.WithLabelValues(cm.id, "words"), m.told.WithLabelValues(cm.id, "seal")
	m.height.WithLabelValues(cm.id).Set(float64(c.Height()))
	depth := func(stage string, read func() int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "qioi", Subsystem: "pipeline", Name: "queue_depth", Help: "Items that wait for a stage.",
			ConstLabels: prometheus.Labels{"channel": cm.id, "stage": stage},
		}, func() float64 { return float64(read()) }))
	}
	// The rate of its working time is a stage's saturation: 1 means that it cannot do more
	// (for verify, as many as there are workers).
	busy := func(stage string, number int) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "qioi", Subsystem: "pipeline", Name: "busy_seconds_total", Help: "Time that a stage has worked.",
			ConstLabels: prometheus.Labels{"channel": cm.id, "stage": stage},
		}, func() float64 { return c.pipeline.busy[number].Seconds() }))
	}
	busy("verify", stageVerify)
	busy("commit", stageCommit)
	busy("flush", stageFlush)
	depth("verify", func() int { return len(c.pipeline.help) })
	depth("commit", func() int { return len(c.pipeline.jobs) })
	depth("flush", func() int { return len(c.pipeline.results) })
	return cm
}

func (m *channelMetrics) transaction(tx *validate.Tx, code Code) {
	if m == nil {
		return
	}
	key := seriesKey{tx.Chaincode, tx.Version, int32(tx.Type), code}
	counter := m.series[key]
	if counter == nil {
		// Names may be anything in a transaction that nobody has endorsed.
		if len(m.series) >= maxSeries || len(tx.Chaincode)+len(tx.Version) > maxLabel {
			key.chaincode, key.version = "other", ""
		}
		counter = m.all.transactions.WithLabelValues(m.id, tx.Type.String(), key.chaincode+":"+key.version, code.String())
		m.series[key] = counter
	}
	counter.Inc()
}

// told counts what is told at once, of which the last ones may come before their seal.
func (m *channelMetrics) told(group []done) {
	if m == nil {
		return
	}
	unsealed := 0
	for i := range group {
		switch {
		case group[i].header != nil:
			m.seals.Add(float64(unsealed))
			unsealed = 0
		case group[i].distrust != nil:
			unsealed = 0
		case group[i].holds:
			unsealed++
		}
	}
	m.words.Add(float64(unsealed))
}

// durable notes how long a transaction took that is on disk now.
func (m *channelMetrics) durable(d *done, now time.Time) {
	if m == nil {
		return
	}
	m.validate.Observe(d.recorded.Sub(d.arrived).Seconds())
	m.flush.Observe(now.Sub(d.recorded).Seconds())
}

func (m *channelMetrics) block(height uint64, total, storage, state time.Duration) {
	if m == nil {
		return
	}
	m.all.height.WithLabelValues(m.id).Set(float64(height))
	m.all.processing.WithLabelValues(m.id).Observe(total.Seconds())
	m.all.storage.WithLabelValues(m.id).Observe(storage.Seconds())
	m.all.state.WithLabelValues(m.id).Observe(state.Seconds())
}
