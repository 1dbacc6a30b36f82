package replica

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// flushed is a ledger that tells what is done to it, and fails on demand.
type flushed struct {
	sealed
	done  []string
	fails error
	sync  func()
}

func (f *flushed) Apply(uint64, ...*streampb.LogEntry) error {
	f.done = append(f.done, "apply")
	return nil
}

func (f *flushed) Sync() error {
	f.done = append(f.done, "sync")
	f.sync()
	return f.fails
}

// TestAStateIsDurableBeforeItIsVouchedFor: others forget what came before a state that a quorum has vouched for.
func TestAStateIsDurableBeforeItIsVouchedFor(t *testing.T) {
	for name, fails := range map[string]error{"synced": nil, "failed": errors.New("input/output error")} {
		t.Run(name, func(t *testing.T) {
			genesis := &commonpb.Block{Header: &commonpb.BlockHeader{}}
			host := &flushed{sealed: sealed{height: 1, blocks: []*commonpb.Block{genesis}}, fails: fails}
			settings := consensus.Settings{Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{} }}
			n := &Node{settings: settings, host: host, outbox: newOutbox(host), inputs: make(chan news, 1)}
			n.oracle, n.seals = newOracle(settings, host), newSeals(n)
			host.sync = func() { assert.Empty(t, n.inputs) }
			entry := &bft.Entry{Txs: [][]byte{[]byte("tx")}}
			err := n.apply(context.Background(), []bft.Ordered{{Seq: 7, Entry: entry, Sync: true}})
			require.ErrorIs(t, err, fails)
			assert.Equal(t, []string{"apply", "sync"}, host.done)
			if fails != nil {
				assert.Empty(t, n.inputs)
				return
			}
			assert.EqualValues(t, 7, (<-n.inputs).in.(bft.Synced).Seq)
		})
	}
}

// beyond is a ledger that ends in another entry.
type beyond struct {
	flushed
	at chain.Applied
}

func (b *beyond) Applied() chain.Applied { return b.at }

// TestAStateThatIsPastIsNotVouchedFor: a replica that was killed after the ledger went beyond a state, and before its vote for
// that was durable, is asked for it again. It would vouch for the state that it has now.
func TestAStateThatIsPastIsNotVouchedFor(t *testing.T) {
	for index, vouches := range map[uint64]bool{6: true, 7: true, 8: false} {
		genesis := &commonpb.Block{Header: &commonpb.BlockHeader{}}
		host := &beyond{flushed{sealed: sealed{height: 1, blocks: []*commonpb.Block{genesis}}, sync: func() {}}, chain.Applied{Index: index}}
		settings := consensus.Settings{Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{} }}
		n := &Node{settings: settings, host: host, outbox: newOutbox(host), inputs: make(chan news, 1)}
		n.oracle, n.seals = newOracle(settings, host), newSeals(n)
		require.NoError(t, n.apply(context.Background(), []bft.Ordered{{Seq: 7, Sync: true}}))
		assert.Equal(t, vouches, len(n.inputs) == 1, index)
	}
}
