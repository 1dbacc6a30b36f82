package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// again is a ledger that an orderer has when it starts again.
type again struct{ *changed }

func (again) SealBy(chain.Sealer)             {}
func (again) Registry() prometheus.Registerer { return prometheus.NewRegistry() }

// reopened is an orderer that starts again, and has a block with one transaction.
func reopened(t *testing.T) *Node {
	t.Helper()
	before, now := configured(t), configured(t)
	host, settings := changedBy(t, before, now)
	host.height = 3
	host.blocks[2].Data = &commonpb.BlockData{Data: [][]byte{[]byte("tx")}}
	settings.Channel, settings.Dir = "ch", t.TempDir()
	votes, _, err := votelog.Open(settings.Dir, votelog.Options{})
	require.NoError(t, err)
	require.NoError(t, votes.Append([][]byte{pbft.EncodeRecord(&pbft.ViewRecord{Active: true})}))
	require.NoError(t, votes.Close())

	n, err := Open(settings, again{host}, ProtocolOfPBFT(settings))
	require.NoError(t, err)
	return n
}

// TestWhatIsOrderedIsKnownAfterARestart: a replica would otherwise wait for a transaction that is brought again, and give up
// leaders who know better.
func TestWhatIsOrderedIsKnownAfterARestart(t *testing.T) {
	n := reopened(t)
	defer func() {
		n.deadline.close()
		_ = n.log.Close()
	}()
	require.NoError(t, n.start(t.Context()))
	assert.True(t, n.oracle.Known(bft.TxDigest([]byte("tx"))))
	assert.False(t, n.oracle.Known(bft.TxDigest([]byte("another"))))
}

// torn is a ledger of which some blocks cannot be read.
type torn struct {
	sealed
	below uint64
}

func (t *torn) Block(number uint64) (*commonpb.Block, error) {
	if number < t.below {
		return nil, errors.New("it cannot be read")
	}
	return t.sealed.Block(number)
}

// TestOfALongLedgerTheNewestBlocksAreRead, as far as they can be: an orderer that starts is waited for.
func TestOfALongLedgerTheNewestBlocksAreRead(t *testing.T) {
	host := &torn{sealed: sealed{height: 10}}
	tx := func(number uint64) []byte {
		return append(make([]byte, 92), binary.BigEndian.AppendUint64(nil, number)...)
	}
	for number := range host.height {
		host.blocks = append(host.blocks, &commonpb.Block{Data: &commonpb.BlockData{Data: [][]byte{tx(number)}}})
	}
	n := &Node{host: host, oracle: newOracle(consensus.Settings{}, host)}
	for _, c := range []struct {
		below, first uint64
		most         int
	}{{0, 1, 1 << 20}, {0, 6, 399}, {0, 5, 400}, {7, 7, 1 << 20}} {
		host.below = c.below
		txs, first, err := n.newest(t.Context(), 1, host.height, c.most)
		assert.Equal(t, c.below > 0, err != nil)
		assert.Equal(t, c.first, first)
		require.Len(t, txs, int(host.height-first))
		for i := range txs {
			assert.Equal(t, bft.TxDigest(tx(first+uint64(i))), txs[i])
		}
	}
	require.NoError(t, n.recallOrdered(t.Context()))
	assert.False(t, n.oracle.Known(bft.TxDigest(tx(6))))
	assert.True(t, n.oracle.Known(bft.TxDigest(tx(7))))
}

// stopped is a ledger whose orderer is stopped as it reads a block.
type stopped struct {
	sealed
	at   uint64
	stop func()
	read []uint64
}

func (s *stopped) Block(number uint64) (*commonpb.Block, error) {
	s.read = append(s.read, number)
	if number == s.at {
		s.stop()
	}
	return s.sealed.Block(number)
}

// TestAnOrdererThatIsStoppedReadsNoMoreBlocks, whether it starts or fetches.
func TestAnOrdererThatIsStoppedReadsNoMoreBlocks(t *testing.T) {
	for name, reads := range map[string]func(context.Context, *Node) error{
		"start": func(ctx context.Context, n *Node) error { return n.recallOrdered(ctx) },
		"fetch": func(ctx context.Context, n *Node) error { _, _, err := n.brought(ctx, 1, 10); return err },
	} {
		ctx, stop := context.WithCancel(t.Context())
		host := &stopped{sealed: sealed{height: 10}, at: 7, stop: stop}
		for range host.height {
			host.blocks = append(host.blocks, &commonpb.Block{})
		}
		n := &Node{host: host, oracle: newOracle(consensus.Settings{}, host)}
		require.ErrorIs(t, reads(ctx, n), context.Canceled, name)
		assert.Equal(t, []uint64{9, 8, 7}, host.read, name)
		stop()
	}
}

// TestAnOrdererThatIsStoppedAsItStartsEndsInOrder: it may be so because it was removed.
func TestAnOrdererThatIsStoppedAsItStartsEndsInOrder(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, reopened(t).Run(ctx))
}

// TestAllKnowTheSameTransactions, and not by when each has begun: one that has forgotten what the leader knows gives it up.
func TestAllKnowTheSameTransactions(t *testing.T) {
	id := func(i int) bft.Digest { return bft.TxDigest(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	for _, began := range []int{0, 7, kept} {
		o := newOracle(consensus.Settings{}, nil)
		for i := began; i < 2*kept+9; i++ {
			o.remember([]bft.Digest{id(i), id(i)})
		}
		o.remember([]bft.Digest{id(2 * kept)})
		assert.False(t, o.Known(id(kept+8)))
		assert.True(t, o.Known(id(kept+9)))
		assert.True(t, o.Known(id(2*kept+8)))
	}
}

// TestWhatIsOrderedAgainTakesNoOthersPlace: a leader that lies may order what is known, and a replica that starts then would
// know less than the others.
func TestWhatIsOrderedAgainTakesNoOthersPlace(t *testing.T) {
	const half = kept / 2
	host := &sealed{height: 1, blocks: []*commonpb.Block{{}}}
	running := newOracle(consensus.Settings{}, host)
	tx := func(number int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(number)) }
	order := func(first int) {
		block := &commonpb.BlockData{}
		for i := first; i < first+half; i++ {
			block.Data = append(block.Data, tx(i))
			running.remember([]bft.Digest{bft.TxDigest(tx(i))})
		}
		host.blocks = append(host.blocks, &commonpb.Block{Data: block})
		host.height++
	}
	for _, first := range []int{0, half, 2 * half, half, half, half, 0} {
		order(first)
		again := &Node{host: host, oracle: newOracle(consensus.Settings{}, host)}
		require.NoError(t, again.recallOrdered(t.Context()))
		for i := range 3 * half {
			id := bft.TxDigest(tx(i))
			require.Equal(t, running.Known(id), again.oracle.Known(id), "%d after %d blocks", i, host.height-1)
		}
	}
	assert.True(t, running.Known(bft.TxDigest(tx(0))))
	assert.True(t, running.Known(bft.TxDigest(tx(half))), "it came again after the third half")
	assert.False(t, running.Known(bft.TxDigest(tx(2*half))))
}
