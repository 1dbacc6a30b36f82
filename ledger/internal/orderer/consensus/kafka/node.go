// Package kafka orders a channel's transactions by a topic of Apache Kafka, as Fabric 1.4
// did: one topic a channel, with one partition. Every orderer writes what it is handed to
// the topic and reads all of it back; that order is the channel's. No orderer leads. A block
// whose time is up ends by a record too, so that all cut alike.
//
// The offset of a record, plus one, is its index in the log. Blocks carry it in their
// metadata (chain.Applied), and a restarted orderer reads on from there.
package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/problems"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var log = ops.Logger("orderer.consensus.kafka")

var (
	// ErrStarting is returned until this orderer has read the topic up to its own first record.
	ErrStarting = errors.New("the topic is not read to its end yet")
	// ErrLost ends an orderer whose topic no longer holds what was read from it, or is another one than it was.
	ErrLost = errors.New("records of the topic are lost")
)

const (
	queuedRecords = 4096
	queuedBytes   = 64 << 20 // or one record, where a larger one is allowed
	// deliveryTimeout is for a record that no broker takes: its client has given up after this time.
	deliveryTimeout = 10 * time.Second
	// recordSlack is what surrounds a transaction in a record, and a record in a batch.
	recordSlack = 64 << 10
	// batchBytes is more than what surrounds a record that is alone in its batch.
	batchBytes = 128
	// The pauses before a refused write is tried again, and between two looks for the partition's leader. When a broker
	// dies, the client's default of 5 s would be half of a transaction's time.
	retryPause, retryPauseMost = 50 * time.Millisecond, 500 * time.Millisecond
	metadataPause              = 100 * time.Millisecond
	// syncBytes is how much a restart may have to read again.
	syncBytes = 16 << 20
)

// Config is how a channel is ordered.
type Config struct {
	// Channel is the channel's name, and its topic's.
	Channel string
	// Brokers are the host:port of those to begin with: one that is up suffices, which names the others. The topic has
	// as many replicas as there are brokers here, up to three.
	Brokers []string
	// MaxBytes is the largest transaction, which the topic's settings must allow.
	MaxBytes int
	// CutInterval is how long a block may stay open. It is asked for each block.
	CutInterval func() time.Duration
}

// validate returns every problem of the configuration.
func (c *Config) validate() error {
	var found problems.List
	found.If(c.Channel == "", "no channel is named")
	found.If(len(c.Brokers) == 0, "no broker is named: at least one host:port is accepted")
	most := channelconfig.MostBytes(channelconfig.Kafka)
	found.If(c.MaxBytes <= 0 || c.MaxBytes > most, "largest transaction of %d bytes: 1 to %d is accepted", c.MaxBytes, most)
	found.If(c.CutInterval == nil, "no time to cut a block is given")
	return found.Err()
}

// largest is the most bytes of a batch, and so of a record.
func (c *Config) largest() int { return c.MaxBytes + recordSlack }

// Node is one orderer's part in a channel.
type Node struct {
	consensus.Apart
	cfg       Config
	host      consensus.Host
	client    *kgo.Client
	session   []byte // in this run's CONNECT, by which it is recognised
	connected atomic.Bool
	// topicID identifies the topic that was there at the start, found or made. Brokers before Kafka 2.8 give no ids: it is zero.
	topicID [16]byte

	writing    consensus.Tally // writing counts records until the brokers have them, or will not
	read       consensus.Tally // read counts records that were read, until they are applied
	saturation ops.Saturation  // saturation is of the goroutine that applies

	// Of the goroutine that applies:
	next    int64 // offset of the next record
	reached int64 // offset of the first record that was in no sealed block before the start, also where damage took blocks
	block   *consensus.BlockTimer
	syncer  *consensus.Syncer
}

// Open makes the node; Run starts it. Brokers may come later.
func Open(cfg Config, host consensus.Host) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("kafka of channel %s: %w", cfg.Channel, err)
	}
	n := &Node{cfg: cfg, host: host, session: make([]byte, 16), block: consensus.NewBlockTimer(cfg.CutInterval), syncer: consensus.NewSyncer(syncBytes, host.Sync)}
	n.next, n.reached = offset(host.From()), offset(host.Reached())
	_, _ = rand.Read(n.session) // it never errs
	largest := int32(cfg.largest())
	var err error
	n.client, err = kgo.NewClient(
		kgo.SeedBrokers(cfg.Brokers...), kgo.WithLogger(clientLog{cfg.Channel}),
		// By default a write counts when all brokers in sync have it (acks=all), and one that is repeated
		// after a failure is taken once (idempotence). Signatures do not compress.
		kgo.DefaultProduceTopic(cfg.Channel), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(largest),
		kgo.MaxBufferedRecords(queuedRecords), kgo.MaxBufferedBytes(max(queuedBytes, int(largest))),
		kgo.MetadataMinAge(metadataPause), kgo.RetryBackoffFn(pauseAfter),
		kgo.RecordDeliveryTimeout(deliveryTimeout), kgo.UnknownTopicRetries(-1),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxPartitionBytes(largest),
	)
	if err != nil {
		return nil, fmt.Errorf("brokers of Kafka %v: %w", cfg.Brokers, err)
	}
	return n, nil
}

// offset is that of the first record after a place.
func offset(at chain.Applied) int64 { return max(0, int64(at.Index)-1) }

func pauseAfter(tries int) time.Duration { return min(time.Duration(tries)*retryPause, retryPauseMost) }

// Connected reports whether transactions are accepted.
func (n *Node) Connected() bool { return n.connected.Load() }

// Queued implements consensus.Consenter: records that wait to be taken by a broker, and to be applied.
func (n *Node) Queued() (proposals, messages int) {
	return int(n.client.BufferedProduceRecords()), int(n.client.BufferedFetchRecords()) + n.read.Stands().Length
}

// Busy implements consensus.Consenter.
func (n *Node) Busy() float64 { return n.saturation.Seconds() }

// Submit implements consensus.Consenter. It errs at once before the topic is read to its end.
func (n *Node) Submit(p consensus.Proposal) error {
	if !n.Connected() {
		return ErrStarting
	}
	regular := &ordererpb.KafkaMessageRegular{Payload: p.Tx, ConfigSeq: p.Sequence, Class: ordererpb.KafkaMessageRegular_NORMAL}
	if p.Config {
		regular.Class = ordererpb.KafkaMessageRegular_CONFIG
	}
	return n.write(&ordererpb.KafkaMessage{Type: &ordererpb.KafkaMessage_Regular{Regular: regular}}, p.Settle)
}

func (n *Node) write(m *ordererpb.KafkaMessage, done func(error)) error {
	value, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	n.writing.Put(1)
	// The record outlives its caller: cancelled half way it might be in the topic, or not.
	n.client.TryProduce(context.Background(), &kgo.Record{Value: value}, func(record *kgo.Record, err error) {
		n.writing.Begin(1)
		done(explain(err, len(record.Value)+batchBytes > n.cfg.largest()))
	})
	return nil
}

// explain is what a transaction is told that was not written. One that is tooLarge by itself is what the client refuses. A
// broker says the same of a batch when the topic's max.message.bytes is lowered, and each of its transactions may fit.
func explain(err error, tooLarge bool) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return consensus.ErrOverload
	case tooLarge && errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: %w", consensus.ErrTooLarge, err)
	default:
		return fmt.Errorf("no answer of the brokers: the transaction may or may not get ordered: %w", err)
	}
}

// Run implements consensus.Consenter. It fails when the topic or the ledger does.
func (n *Node) Run(ctx context.Context) error {
	defer n.client.Close()
	defer n.block.Stop()
	if err := n.prepareTopic(ctx); err != nil {
		return consensus.IgnoreEnd(ctx, err)
	}
	log.Infof("[channel: %s] Reading the topic from offset %d", n.cfg.Channel, n.next)
	n.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{n.cfg.Channel: {0: kgo.NewOffset().At(n.next)}})
	fetched, from := make(chan []*kgo.Record), n.next
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		n.connect(groupCtx)
		return nil
	})
	group.Go(func() error { return n.fetch(groupCtx, from, fetched) })
	group.Go(func() error { return n.apply(groupCtx, fetched) })
	return consensus.IgnoreEnd(ctx, group.Wait())
}

// connect writes this run's first record, and tries until it is written: what is read after it is new. The client by
// itself repeats only what a repetition may mend; a topic that forbids writing waits for an operator.
func (n *Node) connect(ctx context.Context) {
	for tries, told := 1, ""; ; tries++ {
		err := n.sayHello(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if err.Error() != told {
			told = err.Error()
			log.Warnf("[channel: %s] cannot write to the topic, trying again: %s", n.cfg.Channel, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauseAfter(tries)):
		}
	}
}

func (n *Node) sayHello(ctx context.Context) error {
	hello := &ordererpb.KafkaMessage{Type: &ordererpb.KafkaMessage_Connect{Connect: &ordererpb.KafkaMessageConnect{Payload: n.session}}}
	written := make(chan error, 1)
	if err := n.write(hello, func(err error) { written <- err }); err != nil {
		return err
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Node) apply(ctx context.Context, fetched <-chan []*kgo.Record) (err error) {
	defer func() { err = errors.Join(err, n.syncer.Close()) }()
	for {
		var work func() error
		select {
		case <-ctx.Done():
			return nil
		case records := <-fetched:
			work = func() error { return n.take(records) }
		case <-n.block.C():
			work = n.proposeCut
		case err := <-n.syncer.Done():
			work = func() error { return n.syncer.End(err) }
		}
		n.saturation.Work()
		if err := work(); err != nil {
			return err
		}
		n.saturation.Wait()
	}
}

// take applies what was read.
func (n *Node) take(records []*kgo.Record) error {
	n.read.Begin(len(records))
	first := n.next
	entries := make([]*streampb.LogEntry, 0, len(records))
	connected := false
	for _, record := range records {
		if record.Offset != n.next {
			return fmt.Errorf("%w: topic %s: offset %d where %d comes next", ErrLost, n.cfg.Channel, record.Offset, n.next)
		}
		n.next++
		n.syncer.Applied(len(record.Value))
		entry, hello := n.entry(record)
		entries = append(entries, entry)
		connected = connected || hello != nil && bytes.Equal(hello, n.session)
	}
	if err := n.host.Apply(uint64(first)+1, entries...); err != nil {
		return err
	}
	if connected { // our first record came at the topic's end
		if err := n.complete(); err != nil {
			return err
		}
	}
	if connected && !n.connected.Swap(true) {
		log.Infof("[channel: %s] The topic is read up to offset %d, where this orderer has come", n.cfg.Channel, n.next-1)
	}
	n.block.Watch(n.host.Open())
	if n.syncer.Due() {
		n.syncer.Begin()
	}
	return nil
}

// complete errs where the topic has ended before what this orderer had of it.
func (n *Node) complete() error {
	if n.next <= n.reached {
		return fmt.Errorf("%w: topic %s ends before offset %d, up to which it is in blocks", ErrLost, n.cfg.Channel, n.reached)
	}
	if missing := n.host.Missing(); missing > 0 {
		return fmt.Errorf("%w: topic %s ends before %d transactions that this orderer had", ErrLost, n.cfg.Channel, missing)
	}
	return nil
}

// entry is what a record means. One that cannot be read is an empty entry, on every orderer alike.
func (n *Node) entry(record *kgo.Record) (entry *streampb.LogEntry, hello []byte) {
	entry = &streampb.LogEntry{}
	var m ordererpb.KafkaMessage
	if err := proto.Unmarshal(record.Value, &m); err != nil {
		log.Warnf("[channel: %s] the record at offset %d is none of ours: %s", n.cfg.Channel, record.Offset, err)
		return entry, nil
	}
	switch kind := m.Type.(type) {
	case *ordererpb.KafkaMessage_Regular:
		entry.Txs = [][]byte{kind.Regular.Payload}
		if kind.Regular.Class != ordererpb.KafkaMessageRegular_UNKNOWN { // else an older orderer has written it
			entry.Checked = kind.Regular.ConfigSeq + 1
		}
	case *ordererpb.KafkaMessage_TimeToCut:
		entry.Cut, entry.CutBlock = true, kind.TimeToCut.BlockNumber
	case *ordererpb.KafkaMessage_Connect:
		hello = kind.Connect.Payload
	}
	return entry, hello
}

// proposeCut ends a block that has been open for its time. Every orderer does so, and the first such record counts.
// Should this one be lost it is repeated.
func (n *Node) proposeCut() error {
	number := n.block.Block()
	cut := &ordererpb.KafkaMessage{Type: &ordererpb.KafkaMessage_TimeToCut{TimeToCut: &ordererpb.KafkaMessageTimeToCut{BlockNumber: number}}}
	err := n.write(cut, func(err error) {
		if err != nil {
			log.Debugf("[channel: %s] time to cut block [%d]: %s", n.cfg.Channel, number, err)
		}
	})
	n.block.Again()
	return err
}
