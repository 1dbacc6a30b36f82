package orderer

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka/kafkatest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// newKafkaCluster is three orderers and, in this process, the brokers that they are told of.
func newKafkaCluster(t *testing.T, change func(*setup.Options)) (*testCluster, *kfake.Cluster) {
	t.Helper()
	c := newCluster(t, func(o *setup.Options) { o.Consenter, o.Brokers = "kafka", 3; change(o) })
	brokers := newBrokers(t, c)
	// The orderers come first for the helpers, which count them.
	slices.SortStableFunc(c.file.Nodes, func(a, b network.Node) int { return rank(a) - rank(b) })
	return c, brokers
}

// newBrokers have nothing yet.
func newBrokers(t *testing.T, c *testCluster) *kfake.Cluster {
	t.Helper()
	var ports []int
	for _, n := range c.file.Nodes {
		if n.Role == "broker" {
			_, port, err := net.SplitHostPort(n.Address)
			require.NoError(t, err)
			number, err := strconv.Atoi(port)
			require.NoError(t, err)
			ports = append(ports, number)
		}
	}
	brokers, err := kfake.NewCluster(kfake.NumBrokers(len(ports)), kfake.Ports(ports...))
	require.NoError(t, err)
	t.Cleanup(brokers.Close)
	return brokers
}

func rank(n network.Node) int {
	if n.Role == "orderer" {
		return 0
	}
	return 1
}

func TestKafkaOrdersForAllAlike(t *testing.T) {
	for mode, change := range map[string]func(*setup.Options){
		"stream": func(o *setup.Options) { o.VirtualBlockTxs = 4 },
		"block":  func(o *setup.Options) { o.Mode, o.MaxMessageCount, o.BatchTimeout = "block", 4, 100*time.Millisecond },
	} {
		t.Run(mode, func(t *testing.T) {
			c, _ := newKafkaCluster(t, change)
			stops := []func(){c.start(0), c.start(1), c.start(2)}
			var want []string
			for i := range 30 {
				text := fmt.Sprint("tx", i)
				c.orderAt(i%3, text)
				want = append(want, text)
			}
			for i := range 3 {
				assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
			}
			// The last two are in a block that only its time ends: the next goes into another one.
			last := c.sealed(0, want)
			c.orderAt(0, "later")
			for i := range 3 {
				assert.Equal(t, append(want[:len(want):len(want)], "later"), c.texts(i, ch, &streampb.Position{Block: 1}, len(want)+1))
				c.texts(i, ch, &streampb.Position{Block: last + 1}, 1)
			}
			for _, stop := range stops {
				stop()
			}
			first, texts := c.chainOnDisk(0, ch)
			require.Subset(t, texts, want)
			for i := 1; i < 3; i++ {
				hashes, others := c.chainOnDisk(i, ch)
				require.Subset(t, others, want)
				shorter := min(len(hashes), len(first)) // the last block may not be sealed everywhere
				assert.Equal(t, first[:shorter], hashes[:shorter])
				assert.Equal(t, texts[:min(len(texts), len(others))], others[:min(len(texts), len(others))])
			}
		})
	}
}

// TestKafkaEndedOrderersGoOnExactly ends every orderer in the middle of a block, by turns: some have all
// of it on disk, and some nothing.
func TestKafkaEndedOrderersGoOnExactly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c, _ := newKafkaCluster(t, func(o *setup.Options) { o.VirtualBlockTxs, o.VirtualBlockInterval = 7, time.Hour })
	var ends []func(os.Signal)
	for i := range 3 {
		ends = append(ends, c.spawn(i))
	}
	var want []string
	for i := range 60 {
		if i%10 == 5 {
			victim := i / 10 % 3
			ends[victim]([]os.Signal{syscall.SIGTERM, syscall.SIGKILL}[i/10%2])
			ends[victim] = c.spawn(victim)
		}
		text := fmt.Sprint(i)
		c.orderAt((i+1)%3, text)
		want = append(want, text)
	}
	for i := range 3 {
		assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)), "orderer %d", i)
	}
	for i, end := range ends {
		end(syscall.SIGTERM)
		hashes, texts := c.chainOnDisk(i, ch)
		assert.Equal(t, want[:7*(len(want)/7)], texts)
		assert.Len(t, hashes, 1+len(want)/7)
	}
}

// TestKafkaAnotherTopicEndsTheOrderer: the brokers have lost everything, and taken as much of others meanwhile. The
// first orderer would go on with a chain that nobody else has.
func TestKafkaAnotherTopicEndsTheOrderer(t *testing.T) {
	c, brokers := newKafkaCluster(t, func(o *setup.Options) { o.Orderers, o.VirtualBlockTxs, o.VirtualBlockInterval = 2, 4, time.Hour })
	stop := c.start(0)
	var ordered []string
	for i := range 8 {
		ordered = append(ordered, fmt.Sprint(i))
		c.orderAt(0, ordered[i])
	}
	c.sealed(0, ordered) // what it has not read itself it may as well take from others
	stop()
	brokers.Close()
	newBrokers(t, c)
	c.start(1)
	for i := range 20 {
		c.orderAt(1, fmt.Sprint("other ", i))
	}
	node := c.open(0)
	require.ErrorIs(t, node.Run(t.Context()), chain.ErrOtherLog)
}

// TestKafkaBlocksSayHowFarTheTopicIs: as Fabric's do.
func TestKafkaBlocksSayHowFarTheTopicIs(t *testing.T) {
	c, _ := newKafkaCluster(t, func(o *setup.Options) { o.Orderers, o.VirtualBlockTxs, o.VirtualBlockInterval = 1, 2, time.Hour })
	c.start(0)
	for i := range 4 {
		c.orderAt(0, fmt.Sprint(i))
	}
	blocks, err := c.blocks(0, ch, 1, 2)
	require.NoError(t, err)
	require.Len(t, blocks, 2)
	for i, block := range blocks {
		_, consenter, err := protoutil.OrdererMetadata(block.Metadata)
		require.NoError(t, err)
		var metadata ordererpb.KafkaMetadata
		require.NoError(t, protoutil.Unmarshal(consenter, &metadata))
		assert.EqualValues(t, 2*(i+1), metadata.LastOffsetPersisted) // at 0 is the orderer's CONNECT
	}
}

// TestKafkaSuccessWaitsForTheReplicas: what too few brokers have is not told to be ordered.
func TestKafkaSuccessWaitsForTheReplicas(t *testing.T) {
	c, brokers := newKafkaCluster(t, func(o *setup.Options) { o.Orderers = 1 })
	c.start(0)
	c.orderAt(0, "before")
	refused := make(chan struct{}, 64)
	var enough atomic.Bool
	brokers.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		brokers.KeepControl()
		if enough.Load() {
			return nil, nil, false
		}
		refused <- struct{}{}
		return kafkatest.Refused(request.(*kmsg.ProduceRequest), kerr.NotEnoughReplicas), nil, true
	})
	answer, during := make(chan *ordererpb.BroadcastResponse, 1), c.message(ch, "during")
	go func() {
		r, _ := c.ask(0, during)
		answer <- r
	}()
	<-refused
	<-refused // it is tried again
	assert.Empty(t, answer)
	enough.Store(true)
	// The client tries on until the brokers are enough again.
	select {
	case r := <-answer:
		require.NotNil(t, r)
		assert.Equal(t, commonpb.Status_SUCCESS, r.Status, r.Info)
	case <-time.After(patience):
		t.Fatal("no answer")
	}
	assert.Equal(t, []string{"before", "during"}, c.texts(0, ch, &streampb.Position{Block: 1}, 2))
}

// TestWhatABrokerFindsTooLargeMayComeAgain: its limit is of a batch, in which the transaction may have been a small one.
func TestWhatABrokerFindsTooLargeMayComeAgain(t *testing.T) {
	c, brokers := newKafkaCluster(t, func(o *setup.Options) { o.Orderers = 1 })
	c.start(0)
	c.orderAt(0, "before")
	brokers.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		brokers.KeepControl()
		return kafkatest.Refused(request.(*kmsg.ProduceRequest), kerr.MessageTooLarge), nil, true
	})
	r, err := c.ask(0, c.message(ch, "small"))
	require.NoError(t, err)
	assert.Equal(t, commonpb.Status_SERVICE_UNAVAILABLE, r.Status)
	assert.Contains(t, r.Info, kerr.MessageTooLarge.Message)
	assert.Equal(t, commonpb.Status_BAD_REQUEST, statusOf(fmt.Errorf("%w: it alone", consensus.ErrTooLarge)))
}

// TestNobodyIsRememberedWhoHasLeft: a client may go while its transactions are on their way, and these may be lost.
func TestNobodyIsRememberedWhoHasLeft(t *testing.T) {
	c, brokers := newKafkaCluster(t, func(o *setup.Options) { o.Orderers = 1 })
	node := c.open(0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	c.orderAt(0, "before")
	brokers.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		brokers.KeepControl()
		return kafkatest.Refused(request.(*kmsg.ProduceRequest), kerr.NotEnoughReplicas), nil, true
	})
	waiting := node.channels[ch].waiting
	stream, err := ordererpb.NewAtomicBroadcastClient(c.conn(0)).Broadcast(t.Context())
	require.NoError(t, err)
	const under = broadcastWindow + 2 // the one that is answered next, those behind it, and one for which there is no room
	for i := range under {
		require.NoError(t, stream.Send(c.message(ch, fmt.Sprint(i))))
	}
	require.Eventually(t, func() bool { return waiting.count() == under }, patience, time.Millisecond)
	var remembered []*waiter
	waiting.mu.Lock()
	for _, same := range waiting.waiting {
		remembered = append(remembered, same...)
	}
	waiting.mu.Unlock()
	require.NoError(t, c.conns[c.node(0).Address].Close())
	assert.Eventually(t, func() bool { return waiting.count() == 0 }, patience, time.Millisecond)
	// The brokers' own word comes when the client has tried for deliveryTimeout: it would be an answer.
	for _, w := range remembered {
		assert.Empty(t, w.result, "forgotten, not answered")
	}
	cancel()
	require.NoError(t, <-ended)
}

// sealed waits until blocks with these transactions are sealed and gives the last one's number.
func (c *testCluster) sealed(i int, texts []string) uint64 {
	c.t.Helper()
	for number, have := uint64(1), 0; ; number++ {
		blocks, err := c.blocks(i, ch, number, number)
		require.NoError(c.t, err)
		have += len(blocks[0].Data.Data)
		if have == len(texts) {
			return number
		}
	}
}
