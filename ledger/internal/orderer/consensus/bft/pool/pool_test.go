package pool_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// oracle allows what is not outdated, and counts what it is asked.
type oracle struct {
	bft.Oracle
	outdated map[string]bool
	checks   int
}

func (o *oracle) Check(tx []byte) (config, ok bool) {
	o.checks++
	return false, !o.outdated[string(tx)]
}

func (o *oracle) Known(bft.Digest) bool { return false }

func (o *oracle) Mark([]byte) bool { return false }

// TestForget: what need not be ordered is waited for no longer.
func TestForget(t *testing.T) {
	p := pool.New(pool.Limits{ID: 1, BatchTxs: 9, BatchBytes: 99, Txs: 3, Bytes: 99}, &oracle{})
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

// full has many transactions of its replica's clients, of which the first are outdated since.
func full(outdated int) (*pool.Pool, *oracle) {
	o := &oracle{outdated: map[string]bool{}}
	p := pool.New(pool.Limits{ID: 1, BatchTxs: 8, BatchBytes: 1 << 20, Txs: 1000, Bytes: 1 << 20}, o)
	for i := range 1000 {
		tx := fmt.Append(nil, i)
		o.outdated[string(tx)] = i < outdated
		p.Add(&pool.Item{Tx: tx, Digest: bft.TxDigest(tx), From: 1, RelayAt: 5})
	}
	p.Recheck()
	return p, o
}

// TestWhatWaitsIsCheckedAsItIsUsed, once a configuration and a few at a time: a leader has time for nothing else meanwhile.
func TestWhatWaitsIsCheckedAsItIsUsed(t *testing.T) {
	for name, use := range map[string]func(*pool.Pool){
		"batch":  func(p *pool.Pool) { p.Batch() },
		"oldest": func(p *pool.Pool) { p.Oldest() },
		"relay":  func(p *pool.Pool) { p.Relay(5, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, outdated := range []int{0, 3, 1000} {
				p, o := full(outdated)
				assert.Zero(t, o.checks)
				var refused int
				for before := 0; p.Len() > 1000-outdated; before = o.checks {
					use(p)
					assert.LessOrEqual(t, o.checks-before, pool.Relayed)
					told := p.Refused()
					assert.NotEmpty(t, told)
					refused += len(told)
				}
				assert.Equal(t, outdated, refused)
				assert.Empty(t, p.Refused(), "each is told once")
			}
		})
	}
}

func TestWhatHoldsIsCheckedOnceAConfiguration(t *testing.T) {
	p, o := full(0)
	assert.Len(t, p.Relay(5, 5), pool.Relayed)
	assert.Equal(t, pool.Relayed, o.checks)
	assert.Len(t, p.Batch().Txs, 8)
	assert.Equal(t, "0", string(p.Oldest().Tx))
	assert.Equal(t, pool.Relayed, o.checks)
	p.Recheck()
	p.Oldest()
	assert.Equal(t, pool.Relayed+1, o.checks)
}
