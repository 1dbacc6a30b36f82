package pool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// TestForget: what need not be ordered is waited for no longer.
func TestForget(t *testing.T) {
	p := pool.New(pool.Limits{ID: 1, BatchTxs: 9, BatchBytes: 99, Txs: 3, Bytes: 99})
	add := func(text string) bool {
		return p.Add(&pool.Item{Tx: []byte(text), Digest: bft.TxDigest([]byte(text)), From: 1})
	}
	for _, text := range []string{"a", "b", "c"} {
		assert.True(t, add(text))
	}
	assert.False(t, add("d"))
	p.Forget([]bft.Digest{bft.TxDigest([]byte("a")), bft.TxDigest([]byte("strange"))})
	assert.Equal(t, "b", string(p.Oldest().Tx))
	assert.Equal(t, [][][]byte{{[]byte("b"), []byte("c")}}, p.Own())
	assert.True(t, add("d"))
}
