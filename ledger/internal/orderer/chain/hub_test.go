package chain

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// sealOpen ends the block that is open.
func (h *hub) sealOpen() {
	h.seal(&commonpb.BlockHeader{Number: h.blocks[len(h.blocks)-1].number}, &commonpb.BlockMetadata{}, nil)
}

// TestWhatTheHubKeepsIsBounded, in blocks and in bytes; what is open stays, and who is further behind is told so.
func TestWhatTheHubKeepsIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		txBytes, blocks int // of one transaction each
		kept            int
	}{
		"few":              {10, hubBlocks - 1, hubBlocks},
		"as many as fit":   {10, hubBlocks + 5, hubBlocks},
		"as large as fit":  {hubBytes / 4, 4, 5},
		"larger":           {hubBytes / 4, 9, 5},
		"larger by a byte": {hubBytes/4 + 1, 9, 4},
		"one is too large": {hubBytes + 1, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, tx := newHub(7, nil), make([]byte, c.txBytes)
			for range c.blocks {
				h.add(tx, nil)
				h.sealOpen()
			}
			open := 7 + uint64(c.blocks)
			assert.Equal(t, open, h.blocks[len(h.blocks)-1].number)
			require.Len(t, h.blocks, c.kept)
			assert.Equal(t, (c.kept-1)*c.txBytes, h.bytes)
			first := open + 1 - uint64(c.kept)
			_, at, _, err := h.read(Position{Block: first}, 1)
			require.NoError(t, err)
			if c.kept > 1 {
				assert.Equal(t, Position{Block: first, Tx: 1}, at)
			}
			if first > 7 {
				_, _, _, err = h.read(Position{Block: first - 1}, 1)
				assert.ErrorIs(t, err, errEvicted)
			}
		})
	}
}

// TestTheOpenBlockIsNeverDropped, however large it grows: nobody could read it from the ledger's files.
func TestTheOpenBlockIsNeverDropped(t *testing.T) {
	h := newHub(3, nil)
	for range 3 {
		h.add(make([]byte, hubBytes), nil)
	}
	batch, at, _, err := h.read(Position{Block: 3}, 3*hubBytes)
	require.NoError(t, err)
	assert.Len(t, batch.Items, 3)
	assert.Equal(t, Position{Block: 3, Tx: 3}, at)
}

// TestAPositionThatNoBlockHasIsRefused: a follower that has seen more than was sealed follows another chain. One of the open
// block may be ahead of this orderer.
func TestAPositionThatNoBlockHasIsRefused(t *testing.T) {
	h := newHub(3, nil)
	h.add([]byte("a"), nil)
	h.sealOpen()
	_, _, _, err := h.read(Position{Block: 3, Tx: 2}, 1)
	require.ErrorIs(t, err, ErrPosition)
	assert.ErrorContains(t, err, "block 3 has 1 transactions, asked for number 2")
	for _, ahead := range []Position{{Block: 4, Tx: 9}, {Block: 99, Tx: 1}} {
		batch, at, more, err := h.read(ahead, 1)
		require.NoError(t, err)
		assert.Empty(t, batch.Items)
		assert.Equal(t, ahead, at)
		assert.NotNil(t, more)
	}
}

// TestABatchEndsOnceItIsFull, and goes on where it has ended.
func TestABatchEndsOnceItIsFull(t *testing.T) {
	h := newHub(0, nil)
	for range 4 {
		h.add(make([]byte, 10), nil)
	}
	h.sealOpen()
	at, sizes := Position{}, []int{}
	for range 3 {
		batch, next, _, err := h.read(at, 15)
		require.NoError(t, err)
		at, sizes = next, append(sizes, len(batch.Items))
	}
	assert.Equal(t, []int{2, 2, 1}, sizes) // the last is the seal
	assert.Equal(t, Position{Block: 1}, at)
}

// TestWordsAreOfWhatIsKept: a running hash is told of a position that is in memory, and of no other.
func TestWordsAreOfWhatIsKept(t *testing.T) {
	h := newHub(1, []byte("before"))
	h.add([]byte("a"), []byte("word a"))
	for at, hash := range map[Position]string{{Block: 1}: "before", {Block: 1, Tx: 1}: "word a"} {
		assert.Equal(t, hash, string(h.word(at).GetHash()), at)
	}
	for _, at := range []Position{{Block: 0}, {Block: 1, Tx: 2}, {Block: 2}} {
		assert.Nil(t, h.word(at), at)
	}
	word, _ := h.newest(Position{Block: 1})
	assert.Equal(t, "word a", string(word.GetHash()))
	word, more := h.newest(Position{Block: 1, Tx: 1})
	assert.Nil(t, word)
	select {
	case <-more:
		t.Fatal("there is nothing new")
	default:
	}
	h.add([]byte("b"), []byte("word b"))
	h.wake()
	<-more
}
