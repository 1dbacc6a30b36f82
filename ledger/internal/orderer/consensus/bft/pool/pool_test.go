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

func (o *oracle) Mark(tx []byte) bool { return tx[0] == '|' }

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

// text is what an entry has; nil: there is none.
func text(e *bft.Entry) (txs []string) {
	if e != nil {
		for _, tx := range e.Txs {
			txs = append(txs, string(tx))
		}
	}
	return txs
}

// TestMarksHoldUpNothing: a liar brings marks as soon as there is room, ahead of others' transactions. Entries are full
// all the same, each has one mark at most, and an honest replica's mark gets its turn.
func TestMarksHoldUpNothing(t *testing.T) {
	const batch = 8
	p := pool.New(pool.Limits{ID: 1, BatchTxs: batch, BatchBytes: 1 << 20, Txs: 1000, Bytes: 1 << 20}, &oracle{})
	add := func(from bft.ID, tx string) bool {
		return p.Add(&pool.Item{Tx: []byte(tx), Digest: bft.TxDigest([]byte(tx)), From: from})
	}
	marks := 0
	flood := func() (taken int) {
		for range 100 {
			if marks++; add(4, fmt.Sprint("|liar", marks)) {
				taken++
			}
		}
		return taken
	}
	assert.Equal(t, pool.Marks, flood())
	assert.True(t, add(2, "|honest"))
	var want, got []string
	for i := range 10 * (batch - 1) {
		want = append(want, fmt.Sprint(i))
		assert.True(t, add(2, want[i]))
	}
	var gone []string
	for len(got) < len(want) {
		e := p.Batch()
		if len(want)-len(got) >= batch {
			assert.Len(t, e.Txs, batch)
		}
		p.Ordered(e)
		before := len(gone)
		for _, tx := range text(e) {
			if tx[0] == '|' {
				gone = append(gone, tx)
			} else {
				got = append(got, tx)
			}
		}
		assert.LessOrEqual(t, len(gone), before+1)
		for _, mark := range gone[before:] {
			if mark != "|honest" {
				assert.Equal(t, 1, flood(), "as many as an entry has taken")
			}
		}
	}
	assert.Equal(t, want, got)
	assert.Equal(t, []string{"|liar1", "|liar2", "|liar3", "|honest"}, gone[:pool.Marks+1])
}

// TestASecondMarkWaitsAlone: what an entry leaves out of its turn keeps its place.
func TestASecondMarkWaitsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		waits   []string
		entries [][]string
	}{
		"among transactions": {
			[]string{"a", "|1", "|2", "b", "|3", "c"},
			[][]string{{"a", "|1", "b", "c"}, {"|2"}, {"|3"}},
		},
		"no room for more": {
			[]string{"|1", "|2", "a", "b", "c", "d"},
			[][]string{{"|1", "a", "b", "c"}, {"|2", "d"}},
		},
		"too large for an entry": {
			[]string{"|1", "|2", "a", "long long long"},
			[][]string{{"|1", "a"}, {"|2"}, {"long long long"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pool.New(pool.Limits{ID: 1, BatchTxs: 4, BatchBytes: 9, Txs: 9, Bytes: 99}, &oracle{})
			for _, tx := range c.waits {
				assert.True(t, p.Add(&pool.Item{Tx: []byte(tx), Digest: bft.TxDigest([]byte(tx)), From: 1}))
			}
			for _, want := range c.entries {
				assert.Equal(t, want, text(p.Batch()))
			}
			assert.Nil(t, p.Batch())
		})
	}
}

// TestWhatAnotherHasBroughtFirst is this replica's client's too, once that comes: the other may be a liar who leads.
func TestWhatAnotherHasBroughtFirst(t *testing.T) {
	p := pool.New(pool.Limits{ID: 1, BatchTxs: 9, BatchBytes: 99, Txs: 3, Bytes: 99}, &oracle{})
	tx := []byte("a")
	p.Add(&pool.Item{Tx: tx, Digest: bft.TxDigest(tx), From: 2})
	assert.Empty(t, p.Own())
	assert.True(t, p.Adopt(bft.TxDigest(tx), 5))
	assert.False(t, p.Adopt(bft.TxDigest(tx), 9), "it is this replica's already")
	assert.Equal(t, [][][]byte{{tx}}, p.Own())
	assert.Equal(t, bft.Time(5), p.RelayAt())
	assert.Equal(t, [][]byte{tx}, p.Relay(5, 5))
	p.Forget([]bft.Digest{bft.TxDigest(tx)})
	assert.Empty(t, p.Own())
}

// TestMarksAloneWait for a transaction, as long as the oldest of them may.
func TestMarksAloneWait(t *testing.T) {
	for name, c := range map[string]struct {
		waits []string
		ripe  bft.Time
	}{
		"nothing":              {nil, 0},
		"a mark":               {[]string{"|1"}, 11},
		"marks":                {[]string{"|1", "|2"}, 11},
		"a transaction":        {[]string{"a"}, 0},
		"a transaction behind": {[]string{"|1", "|2", "a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := pool.New(pool.Limits{ID: 1, BatchTxs: 4, BatchBytes: 9, Txs: 9, Bytes: 99}, &oracle{})
			for i, tx := range c.waits {
				p.Add(&pool.Item{Tx: []byte(tx), Digest: bft.TxDigest([]byte(tx)), From: 1, Since: bft.Time(i + 1)})
			}
			assert.Equal(t, c.ripe, p.Ripe(10))
		})
	}
}
