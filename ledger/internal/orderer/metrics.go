package orderer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// metrics are the series of an orderer, under Fabric's names where Fabric has one.
type metrics struct {
	registry  prometheus.Registerer
	isLeader  *prometheus.GaugeVec
	changes   *prometheus.CounterVec
	validate  *prometheus.HistogramVec
	enqueue   *prometheus.HistogramVec
	processed *prometheus.CounterVec
	delivered *serving.Delivered
}

func newMetrics(registry prometheus.Registerer) *metrics {
	channel := []string{"channel"}
	m := &metrics{
		registry: registry,
		isLeader: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consensus_etcdraft_is_leader", Help: "The leadership status of the current node: 1 if it is the leader else 0."}, channel),
		changes:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "consensus_etcdraft_leader_changes", Help: "The number of leader changes since process start."}, channel),
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "broadcast", Name: name, Help: help, Buckets: ops.LatencyBuckets},
			[]string{"channel", "type", "status"})
	}
	m.validate = histogram("validate_duration", "The time to validate a transaction in seconds.")
	// Fabric's enqueueing ends where ours does not: here a transaction is answered when it is ordered.
	m.enqueue = histogram("enqueue_duration", "The time to order a transaction in seconds, until a majority (of the orderers, on disk, or of the Kafka brokers) has it.")
	m.processed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "broadcast", Name: "processed_count", Help: "The number of transactions processed.",
	}, []string{"channel", "type", "status"})
	m.delivered = serving.NewDelivered(registry)
	registry.MustRegister(m.processed, m.isLeader, m.changes, m.validate, m.enqueue)
	return m
}

// answered notes how long a transaction took that has its answer now.
func (m *metrics) answered(w *waiter, status commonpb.Status, now time.Time) {
	if w.channel == nil {
		return // of no channel that we know: a client could name any number of them
	}
	kind := w.kind.String()
	m.validate.WithLabelValues(w.channel.name, kind, status.String()).Observe(w.checked.Sub(w.arrived).Seconds())
	m.enqueue.WithLabelValues(w.channel.name, kind, status.String()).Observe(now.Sub(w.checked).Seconds())
	m.processed.WithLabelValues(w.channel.name, kind, status.String()).Inc()
}

func (m *metrics) leader(channel string, us bool) {
	value := 0.0
	if us {
		value = 1
	}
	m.isLeader.WithLabelValues(channel).Set(value)
	m.changes.WithLabelValues(channel).Inc()
}

// saturation shows how full a channel's queues are and how much of the time its
// consensus works: a rate of 1 means that it cannot do more.
func (m *metrics) saturation(ch *channel) {
	labels := prometheus.Labels{"channel": ch.name}
	depth := func(queue string, read func() int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "qioi", Subsystem: "orderer", Name: "queue_depth", Help: "Items that wait in a queue.",
			ConstLabels: prometheus.Labels{"channel": ch.name, "queue": queue},
		}, func() float64 { return float64(read()) }))
	}
	queued := func() (proposals, messages int) {
		if part := ch.part(); part != nil {
			return part.Queued()
		}
		return 0, 0
	}
	depth("proposals", func() int { proposals, _ := queued(); return proposals })
	depth("messages", func() int { _, messages := queued(); return messages })
	depth("answers", ch.waiting.count)
	m.chain(ch)
	if !ch.kind.Log.External {
		m.group(ch)
	}
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "busy_seconds_total", Help: "Time that consensus has worked, fsync included; of PBFT and Zyzzyva without it, which is of the stage write.", ConstLabels: labels,
	}, func() float64 {
		if part := ch.part(); part != nil {
			return part.Busy()
		}
		return 0
	}))
}

// chain registers what a channel's chain has.
func (m *metrics) chain(ch *channel) {
	labels := prometheus.Labels{"channel": ch.name}
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orderer_ordered_transactions", Help: "Transactions put into the order.", ConstLabels: labels,
		}, func() float64 { return float64(ch.Grown()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ledger_blockchain_height", Help: "Height of the chain in blocks.", ConstLabels: labels,
		}, func() float64 { return float64(ch.Height()) }),
	)
}

// group registers the size of the group and the height of the chain.
func (m *metrics) group(ch *channel) {
	gauge := func(name, help string, read func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "consensus", Subsystem: "etcdraft", Name: name, Help: help, ConstLabels: prometheus.Labels{"channel": ch.name},
		}, read))
	}
	gauge("cluster_size", "Number of nodes in this channel.", func() float64 { return float64(len(ch.Bundle().Orderer.Consenters)) })
	gauge("committed_block_number", "The block number of the latest block committed.", func() float64 { return float64(ch.Height()) - 1 })
}

// remote shows what waits to leave for another orderer, until it is told to forget.
func (m *metrics) remote(address string, r *cluster.Remote) (forget func()) {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "outgoing_depth", Help: "Messages that wait to leave for another orderer.",
		ConstLabels: prometheus.Labels{"to": address},
	}, func() float64 { return float64(r.Queued()) })
	m.registry.MustRegister(gauge)
	return func() { m.registry.Unregister(gauge) }
}
