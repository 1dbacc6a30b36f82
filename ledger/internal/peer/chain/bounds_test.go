package chain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
)

// refusedAt adds transactions without a seal, and gives the place of the one that is not taken.
func refusedAt(r *rig, txs ...[]byte) Position {
	r.t.Helper()
	for _, raw := range txs {
		at := r.Position()
		if err := r.Add(context.Background(), raw); err != nil {
			require.ErrorIs(r.t, err, ErrRewound)
			return at
		}
	}
	return Position{}
}

// TestAnOrdererThatNeverSealsIsFoundOut: what the channel's own rule allows a block is all that can be told without a
// seal. It is taken back then.
func TestAnOrdererThatNeverSealsIsFoundOut(t *testing.T) {
	stream, block := streamWorld(t), blockWorld(t)
	for name, c := range map[string]struct {
		w    *peertest.World
		txs  func(w *peertest.World) [][]byte
		want Position
	}{
		"stream: transactions":       {stream, plain(101), Position{1, 100}},
		"stream: as many as allowed": {stream, plain(100), Position{}},
		"block: transactions":        {block, plain(501), Position{1, 500}},
		"bytes before": {stream, func(w *peertest.World) (out [][]byte) {
			for range 3 { // 2 MB are preferred
				out = append(out, w.Raw(put(w, "large", string(make([]byte, 900<<10)))))
			}
			return out
		}, Position{1, 2}},
		"bytes of one": {stream, func(w *peertest.World) (out [][]byte) {
			return append(plain(1)(w), w.Raw(put(w, "large", string(make([]byte, 3<<20)))))
		}, Position{1, 1}},
		"after a large one": {stream, func(w *peertest.World) (out [][]byte) {
			return append(out, w.Raw(put(w, "large", string(make([]byte, 3<<20)))), plain(1)(w)[0])
		}, Position{1, 1}},
		"before a configuration": {stream, func(w *peertest.World) [][]byte {
			return append(plain(1)(w), reconfigure(t, w, 1, "Org1MSP", "Org2MSP"))
		}, Position{1, 1}},
		"after a configuration": {stream, func(w *peertest.World) [][]byte {
			return append([][]byte{reconfigure(t, w, 1, "Org1MSP", "Org2MSP")}, plain(1)(w)...)
		}, Position{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, c.w, t.TempDir(), Options{})
			before := r.fingerprint()
			txs := c.txs(c.w)
			assert.Equal(t, c.want, refusedAt(r, txs...))
			if c.want == (Position{}) {
				r.open = txs
				r.seal()
				r.settle()
				return
			}
			assert.Equal(t, Position{1, 0}, r.Position())
			r.settle()
			assert.Equal(t, before, r.fingerprint(), "all is taken back")
			assert.EqualValues(t, 0, r.Bundle().Sequence)
			r.add(txs[0]) // an honest orderer goes on
			r.seal()
			r.settle()
			assert.EqualValues(t, 2, r.Height())
		})
	}
}

// TestABlockIsBoundedOverRestarts and each block anew.
func TestABlockIsBoundedOverRestarts(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	for range 3 {
		for _, raw := range plain(100)(w) {
			r.add(raw)
		}
		r.seal()
	}
	for _, raw := range plain(60)(w) {
		r.add(raw)
	}
	r.settle()
	require.NoError(t, r.stop())
	r = startRig(t, w, dir, Options{})
	assert.Equal(t, Position{4, 100}, refusedAt(r, plain(50)(w)...))
	assert.Equal(t, Position{4, 0}, r.Position())
}

// plain makes n valid transactions.
func plain(n int) func(w *peertest.World) [][]byte {
	return func(w *peertest.World) (out [][]byte) {
		for range n {
			out = append(out, w.Raw(peertest.Tx{}))
		}
		return out
	}
}
