package sequencer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/sequencer"
)

// Kind has the orderers of a channel read one sequencer's log. Blocks name their place in it as they name one in a topic:
// a blob too is one transaction or none.
var Kind = consensus.Kind{Log: chain.KafkaLog, Open: open}

func open(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
	o := &s.Bundle().Orderer
	conn, err := cluster.Dial(o.Sequencer, s.Certificate, o.TLSRoots, nil, sequencer.MostMessage)
	if err != nil {
		return nil, err
	}
	n := newNode(s.Channel, conn, s.CutInterval, host)
	consensus.ShowWaits(host.Registry(), s.Channel, "proposals", n.intake.Stands)
	consensus.ShowQueue(host.Registry(), s.Channel, "sequencer", n.asked.Stands)
	consensus.ShowWaits(host.Registry(), s.Channel, "messages", n.read.Stands)
	host.Registry().MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "qioi", Subsystem: "orderer", Name: "sequencer_connected", Help: "1 while the sequencer takes blobs, once its log is read to where it ended.",
		ConstLabels: prometheus.Labels{"channel": s.Channel},
	}, func() float64 {
		if n.connected.Load() {
			return 1
		}
		return 0
	}))
	return n, nil
}
