package orderer

import "github.com/prometheus/client_golang/prometheus"

// metrics are the series of an orderer, under Fabric's names where Fabric has one.
type metrics struct {
	transactions *prometheus.CounterVec
	height       *prometheus.GaugeVec
	isLeader     *prometheus.GaugeVec
	changes      *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	channel := []string{"channel"}
	m := &metrics{
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "orderer_ordered_transactions", Help: "Transactions put into the order."}, channel),
		height:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ledger_blockchain_height", Help: "Height of the chain in blocks."}, channel),
		isLeader:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consensus_etcdraft_is_leader", Help: "The leadership status of the current node: 1 if it is the leader else 0."}, channel),
		changes:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "consensus_etcdraft_leader_changes", Help: "The number of leader changes since process start."}, channel),
	}
	registry.MustRegister(m.transactions, m.height, m.isLeader, m.changes)
	return m
}

func (m *metrics) ordered(channel string, transactions int, height uint64) {
	m.transactions.WithLabelValues(channel).Add(float64(transactions))
	m.height.WithLabelValues(channel).Set(float64(height))
}

func (m *metrics) leader(channel string, us bool) {
	value := 0.0
	if us {
		value = 1
	}
	m.isLeader.WithLabelValues(channel).Set(value)
	m.changes.WithLabelValues(channel).Inc()
}
