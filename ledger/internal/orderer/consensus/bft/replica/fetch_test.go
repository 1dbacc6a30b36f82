package replica

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// sealed is a ledger whose first block is here, while others have all.
type sealed struct {
	consensus.Host
	blocks []*commonpb.Block
	height uint64
}

func (s *sealed) Height() uint64    { return s.height }
func (s *sealed) Members() []uint64 { return nil }
func (s *sealed) Sync() error       { return nil }

func (s *sealed) CatchUp(_ context.Context, height uint64) error {
	s.height = max(s.height, height)
	return nil
}

func (s *sealed) Block(number uint64) (*commonpb.Block, error) { return s.blocks[number], nil }

// TestFetchedTransactionsAreKnown: a replica would otherwise wait for them, and give up leaders who know better.
func TestFetchedTransactionsAreKnown(t *testing.T) {
	host := &sealed{height: 1}
	for number := range uint64(4) {
		host.blocks = append(host.blocks, &commonpb.Block{
			Header: &commonpb.BlockHeader{Number: number}, Data: &commonpb.BlockData{Data: [][]byte{fmt.Append(nil, "tx", number)}},
		})
	}
	settings := consensus.Settings{Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{} }}
	n := &Node{settings: settings, host: host, outbox: newOutbox(host), inputs: make(chan news, 1)}
	n.oracle, n.seals = newOracle(settings, host), newSeals(n)
	state, err := n.stateOf(4)
	require.NoError(t, err)
	require.Equal(t, protoutil.BlockHeaderHash(host.blocks[3].Header)[:24], state[8:])

	other := state
	other[20]++
	require.ErrorContains(t, n.fetch(context.Background(), bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 7, State: other}}),
		"block 3 is another one than that of a quorum after entry 7")
	host.height = 5
	require.ErrorContains(t, n.fetch(context.Background(), bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 7, State: state}}),
		"the ledger has 5 blocks, the checkpoint after entry 7 has 4")
	require.Empty(t, n.inputs)

	host.height = 1
	require.NoError(t, n.fetch(context.Background(), bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 7, State: state}}))
	heard := <-n.inputs
	n.oracle.remember(heard.imported)
	for number := range uint64(4) {
		assert.Equal(t, number > 0, n.oracle.Known(bft.TxDigest(fmt.Append(nil, "tx", number))), number)
	}
	fetched := heard.in.(bft.Fetched)
	assert.EqualValues(t, 7, fetched.Seq)
	for number := range uint64(6) {
		past := number >= 1 && number <= 3
		assert.Equal(t, past, slices.Contains(fetched.Past, bft.TxDigest(cutOf(number))), "the cut of block %d", number)
	}
}
