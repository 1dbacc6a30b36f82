package orderer

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// joinKafka opens the channel's part in its topic. There, orderers know nothing of each other.
func (ch *channel) joinKafka() error {
	o := ch.Bundle().Orderer
	var err error
	ch.kafka, err = kafka.Open(kafka.Config{
		Channel: ch.name, Brokers: o.KafkaBrokers, MaxBytes: o.AbsoluteMaxBytes, CutInterval: ch.cutInterval,
	}, topicMachine{ch})
	if err != nil {
		return err
	}
	ch.metrics.connected.WithLabelValues(ch.name).Set(0)
	return nil
}

// topicMachine is the channel as a topic's state machine. Who waits is answered by the brokers'
// acknowledgement, not by what is read: a record may be read before every broker in sync has it.
type topicMachine struct{ *channel }

// Apply implements kafka.StateMachine.
func (m topicMachine) Apply(first uint64, entries ...*streampb.LogEntry) error {
	if err := m.Chain.Apply(first, entries...); err != nil {
		return err
	}
	transactions := 0
	for _, entry := range entries {
		transactions += len(entry.Txs)
	}
	m.metrics.ordered(m.name, transactions, m.Height())
	return nil
}

// Connected implements kafka.StateMachine.
func (m topicMachine) Connected() { m.metrics.connected.WithLabelValues(m.name).Set(1) }
