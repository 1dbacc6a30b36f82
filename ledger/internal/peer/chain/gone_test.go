package chain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/checkpoint"
)

// TestWordsOfBlocksThatAreGone keep none that come later from counting.
func TestWordsOfBlocksThatAreGone(t *testing.T) {
	w := liarsWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	for range 2 {
		r.add(w.Raw(put(w, "a", "1")))
		r.seal()
	}
	r.settle()
	raw, id := w.Make(put(w, "b", "1"))
	r.add(raw)
	r.onDisk()
	now := Word{Position{3, 1}, r.pipeline.words.ours[3][1]}
	assert.Equal(t, Unknown, r.Say("b", Word{Position{1, 1}, now.Hash}))
	require.NoError(t, r.Attest(context.Background(), "a", now))
	r.isNotTold(id, "b")
	assert.Equal(t, Agrees, r.Say("b", now))
	r.isTold(id, "b", Position{3, 0})
}

// TestWordsOfBlocksBeforeAStart keep none that come later from counting: this peer has their transactions' hashes no longer.
func TestWordsOfBlocksBeforeAStart(t *testing.T) {
	w := newWords(&base{}, &mark{Point: checkpoint.Point{Blocks: 5}, words: 2}, []string{"h1"})
	now := Word{Position{5, 1}, "h1"}
	for _, orderer := range []string{"a", "b"} {
		assert.Equal(t, Unknown, w.say(orderer, Word{Position{4, 1}, "x"}))
		assert.Equal(t, Agrees, w.say(orderer, now))
	}
	assert.Equal(t, now.Position, w.vouched)
}
