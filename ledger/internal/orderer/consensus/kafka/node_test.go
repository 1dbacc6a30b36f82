package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka/kafkatest"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

const topic = "mychannel"

// machine notes what it is given, by Fabric's rules of blocks without their size.
type machine struct {
	consensus.Host // what no node of Kafka asks for

	mu     sync.Mutex
	at     chain.Applied
	from   chain.Applied // zero: the same
	lost   int           // transactions of the open block, until the topic has brought as many
	number uint64
	open   []string
	blocks []string
}

func newMachine() *machine { return &machine{number: 1} }

func (m *machine) Apply(first uint64, entries ...*streampb.LogEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range entries {
		for _, tx := range e.Txs {
			if string(tx) == "poison" {
				return errors.New("the ledger fails")
			}
			m.open = append(m.open, string(tx))
		}
		if e.Cut && e.CutBlock == m.number && len(m.open) > 0 {
			m.blocks = append(m.blocks, fmt.Sprint(m.open))
			m.open, m.at = nil, chain.Applied{Index: first + uint64(i)}
			m.number++
		}
	}
	return nil
}

func (m *machine) Reached() chain.Applied { return m.at }

func (m *machine) Missing() int { return max(0, m.lost-len(m.open)) }

func (m *machine) Applied() chain.Applied { return m.at }

func (m *machine) From() chain.Applied {
	if m.from.Index == 0 {
		return m.at
	}
	return m.from
}

func (m *machine) Sync() error { return nil }

func (m *machine) Open() (uint64, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.number, len(m.open)
}

func (m *machine) seen() (blocks []string, open []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.blocks...), append([]string{}, m.open...)
}

// site is brokers of their own in this process, and a client for what others may do.
type site struct {
	t       *testing.T
	brokers *kfake.Cluster
	client  *kgo.Client
}

func newSite(t *testing.T, options ...kfake.Opt) *site {
	t.Helper()
	brokers, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(brokers.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers.ListenAddrs()...), kgo.ProducerLinger(0))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &site{t: t, brokers: brokers, client: client}
}

// run starts a node; ended has its error.
func (s *site) run(m *machine, cut time.Duration) (n *Node, stop func(), ended <-chan error) {
	s.t.Helper()
	return s.runWith(m, cut, 1<<20)
}

// runWith has the largest transaction as well.
func (s *site) runWith(m *machine, cut time.Duration, maxBytes int) (n *Node, stop func(), ended <-chan error) {
	s.t.Helper()
	n, err := Open(Config{Channel: topic, Brokers: s.brokers.ListenAddrs(), MaxBytes: maxBytes, CutInterval: func() time.Duration { return cut }}, m)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	finished := make(chan struct{})
	go func() { done <- n.Run(ctx); close(finished) }()
	stop = func() { cancel(); <-finished }
	s.t.Cleanup(stop)
	return n, stop, done
}

// connected waits until a node has read the topic to its end.
func connected(t *testing.T, n *Node) {
	t.Helper()
	require.Eventually(t, n.Connected, time.Minute, time.Millisecond)
}

// write puts a record into the topic, whoever it may be from.
func (s *site) write(value []byte) {
	s.t.Helper()
	require.NoError(s.t, s.client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: value}).FirstErr())
}

func marshal(t *testing.T, m *ordererpb.KafkaMessage) []byte {
	raw, err := proto.Marshal(m)
	require.NoError(t, err)
	return raw
}

func timeToCut(t *testing.T, number uint64) []byte {
	return marshal(t, &ordererpb.KafkaMessage{Type: &ordererpb.KafkaMessage_TimeToCut{TimeToCut: &ordererpb.KafkaMessageTimeToCut{BlockNumber: number}}})
}

func regular(t *testing.T, tx string) []byte {
	return marshal(t, &ordererpb.KafkaMessage{Type: &ordererpb.KafkaMessage_Regular{Regular: &ordererpb.KafkaMessageRegular{Payload: []byte(tx)}}})
}

// order proposes and waits for the brokers' word.
func order(t *testing.T, n *Node, tx string) {
	t.Helper()
	require.NoError(t, propose(t, n, tx))
}

func propose(t *testing.T, n *Node, tx string) error {
	t.Helper()
	told := make(chan error, 1)
	require.NoError(t, n.Submit(consensus.Proposal{Tx: []byte(tx), Settle: func(err error) { told <- err }}))
	return <-told
}

func await(t *testing.T, m *machine, blocks, open []string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		haveBlocks, haveOpen := m.seen()
		assert.Equal(c, fmt.Sprint(blocks), fmt.Sprint(haveBlocks))
		assert.Equal(c, fmt.Sprint(open), fmt.Sprint(haveOpen))
	}, time.Minute, 5*time.Millisecond)
}

func TestNothingIsAcceptedBeforeTheTopicIsReadToItsEnd(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	n, err := Open(Config{Channel: topic, Brokers: s.brokers.ListenAddrs(), MaxBytes: 1 << 20, CutInterval: func() time.Duration { return time.Hour }}, m)
	require.NoError(t, err)
	defer n.client.Close()
	require.ErrorIs(t, n.Submit(consensus.Proposal{Tx: []byte("early")}), ErrStarting)
}

// TestRecordsWaitForTheBrokersAndToBeApplied, this orderer's first one as well.
func TestRecordsWaitForTheBrokersAndToBeApplied(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	n, _, _ := s.run(m, time.Hour)
	connected(t, n)
	order(t, n, "a")
	s.write(regular(t, "b"))
	await(t, m, []string{}, []string{"a", "b"})
	for queue, want := range map[*consensus.Tally]uint64{&n.writing: 2, &n.read: 3} {
		stands := queue.Stands()
		assert.Positive(t, stands.Waited)
		assert.Equal(t, ops.Stood{Came: want, Waited: stands.Waited}, stands)
	}
	require.Eventually(t, func() bool { // the client counts a record until its promise has returned
		proposals, messages := n.Queued()
		return proposals+messages == 0
	}, time.Minute, time.Millisecond)
}

// TestTheLargestTransactionIsTaken, also where it has more bytes than may wait for the brokers otherwise. Of a larger one it
// is told that it is not ordered. A broker's limit says nothing of one transaction: it is of a batch.
func TestTheLargestTransactionIsTaken(t *testing.T) {
	const most = queuedBytes + 1<<20
	s := newSite(t)
	m := newMachine()
	n, _, _ := s.runWith(m, time.Hour, most)
	connected(t, n)
	order(t, n, strings.Repeat("x", most))
	for _, size := range []int{most + recordSlack - 64, most + recordSlack, 2 * (most + recordSlack)} {
		require.ErrorIs(t, propose(t, n, strings.Repeat("x", size)), consensus.ErrTooLarge)
	}
	s.brokers.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		return kafkatest.Refused(request.(*kmsg.ProduceRequest), kerr.MessageTooLarge), nil, true
	})
	err := propose(t, n, "b")
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	require.NotErrorIs(t, err, consensus.ErrTooLarge)
	order(t, n, "c")
	require.Eventually(t, func() bool {
		_, open := m.seen()
		return len(open) == 2 && len(open[0]) == most && open[1] == "c"
	}, time.Minute, 5*time.Millisecond)
}

// TestWhatIsAcceptedOpens: the client for Kafka has bounds of its own.
func TestWhatIsAcceptedOpens(t *testing.T) {
	for maxBytes, want := range map[int]string{
		0: "largest transaction of 0 bytes: 1 to 104792064 is accepted",
		1: "", 99 << 20: "", 100<<20 - 64<<10: "",
		100<<20 - 64<<10 + 1: "largest transaction of 104792065 bytes: 1 to 104792064 is accepted",
	} {
		n, err := Open(Config{
			Channel: topic, Brokers: []string{"127.0.0.1:1"}, MaxBytes: maxBytes, CutInterval: func() time.Duration { return time.Hour },
		}, newMachine())
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		n.client.Close()
	}
}

func TestOnlyTheOpenBlocksTimeToCutCounts(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	n, _, _ := s.run(m, time.Hour)
	connected(t, n)
	order(t, n, "a")
	s.write(timeToCut(t, 1))
	s.write(timeToCut(t, 1)) // two orderers' clocks: the second comes after the cut
	order(t, n, "b")
	s.write(timeToCut(t, 1))
	s.write(timeToCut(t, 3))
	s.write([]byte{0xff, 0xff, 0xff}) // of somebody who is no orderer
	s.write(nil)
	order(t, n, "c")
	await(t, m, []string{"[a]"}, []string{"b", "c"})
	s.write(timeToCut(t, 2))
	await(t, m, []string{"[a]", "[b c]"}, nil)
}

func TestABlockEndsWhenItsTimeIsUp(t *testing.T) {
	s := newSite(t)
	m, other := newMachine(), newMachine()
	n, _, _ := s.run(m, 5*time.Millisecond)
	another, _, _ := s.run(other, 5*time.Millisecond)
	connected(t, n)
	connected(t, another)
	order(t, n, "a")
	await(t, m, []string{"[a]"}, nil)
	await(t, other, []string{"[a]"}, nil)
	order(t, n, "b")
	await(t, m, []string{"[a]", "[b]"}, nil)
	await(t, other, []string{"[a]", "[b]"}, nil)
}

func TestARestartReadsOnFromTheLastBlock(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	n, stop, _ := s.run(m, time.Hour)
	connected(t, n)
	order(t, n, "a")
	s.write(timeToCut(t, 1))
	order(t, n, "b")
	await(t, m, []string{"[a]"}, []string{"b"})
	stop()
	m.open = nil // it was not sealed: the topic has it
	n, _, _ = s.run(m, time.Hour)
	connected(t, n)
	order(t, n, "c")
	await(t, m, []string{"[a]"}, []string{"b", "c"})
}

// TestAFirstWordThatIsRefusedIsTriedAgainAfterAPause: the client gives up at once where a repetition alone does not help.
func TestAFirstWordThatIsRefusedIsTriedAgainAfterAPause(t *testing.T) {
	const refusals = 4
	s := newSite(t)
	var mu sync.Mutex
	var at []time.Time
	s.brokers.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.brokers.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		if len(at) > refusals {
			return nil, nil, false
		}
		return kafkatest.Refused(request.(*kmsg.ProduceRequest), kerr.TopicAuthorizationFailed), nil, true
	})
	m := newMachine()
	n, _, _ := s.run(m, time.Hour)
	connected(t, n)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, at, refusals+1)
	for i := 1; i <= refusals; i++ {
		assert.GreaterOrEqual(t, at[i].Sub(at[i-1]), time.Duration(i)*retryPause)
	}
}

func TestALedgerThatFailsEndsTheNode(t *testing.T) {
	s := newSite(t)
	m := newMachine()
	n, _, ended := s.run(m, time.Hour)
	connected(t, n)
	s.write(regular(t, "poison"))
	require.ErrorContains(t, <-ended, "the ledger fails")
}

// TestARecordSaysByWhatItWasChecked, but for one that an older orderer has written.
func TestARecordSaysByWhatItWasChecked(t *testing.T) {
	for regular, want := range map[*ordererpb.KafkaMessageRegular]uint64{
		{Payload: []byte("a")}: 0,
		{Payload: []byte("a"), Class: ordererpb.KafkaMessageRegular_NORMAL}:               1,
		{Payload: []byte("a"), Class: ordererpb.KafkaMessageRegular_CONFIG, ConfigSeq: 4}: 5,
	} {
		value, err := proto.Marshal(&ordererpb.KafkaMessage{Type: &ordererpb.KafkaMessage_Regular{Regular: regular}})
		require.NoError(t, err)
		entry, _ := new(Node).entry(&kgo.Record{Value: value})
		assert.Equal(t, want, entry.Checked)
	}
}
