package kafka

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// Kind has the orderers of a channel read one topic.
var Kind = consensus.Kind{Log: chain.KafkaLog, Open: open}

func open(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
	o := &s.Bundle().Orderer
	n, err := Open(Config{
		Channel: s.Channel, Brokers: o.KafkaBrokers, MaxBytes: o.AbsoluteMaxBytes,
		CutInterval: s.CutInterval,
	}, host)
	if err != nil {
		return nil, err
	}
	consensus.ShowQueue(host.Registry(), s.Channel, "broker", n.writing.Stands)
	consensus.ShowWaits(host.Registry(), s.Channel, "messages", n.read.Stands)
	host.Registry().MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "kafka_connected", Help: "1 once the topic can be written to and is read to its end.",
		ConstLabels: prometheus.Labels{"channel": s.Channel},
	}, func() float64 {
		if n.Connected() {
			return 1
		}
		return 0
	}))
	return n, nil
}
