package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestACutMayBeOrderedAgain: a liar could otherwise have the cuts of blocks to come ordered, and these would stay open
// beyond their time.
func TestACutMayBeOrderedAgain(t *testing.T) {
	o := newOracle(consensus.Settings{}, nil)
	tx, cut := []byte("tx"), cutOf(7)
	o.applied(&bft.Entry{Txs: [][]byte{cut, tx}})
	assert.True(t, o.Known(bft.TxDigest(tx)))
	assert.False(t, o.Known(bft.TxDigest(cut)))
}

// TestAnEntryHasOneCut, because an entry of the log has room for no more.
func TestAnEntryHasOneCut(t *testing.T) {
	o := newOracle(consensus.Settings{}, nil)
	for cuts := range 4 {
		e := &bft.Entry{}
		for block := range cuts {
			e.Txs = append(e.Txs, cutOf(uint64(block)))
		}
		assert.Equal(t, cuts == 1, e.Proper(o, 8, 1<<20), cuts)
	}
}
