package chain

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

func TestInspect(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.add(raw)
	r.seal()
	open, openID := w.Make(put(w, "b", "1"))
	r.add(open)
	r.settle()
	live, err := Inspect(dir, true) // beside the running chain
	require.NoError(t, err)
	hash := r.Snapshot().Hash()
	assert.Equal(t, hex.EncodeToString(hash[:]), live.StateHash)
	assert.Equal(t, map[string]uint64{"VALID": 3, "DUPLICATE_TXID": 1}, live.Codes)
	assert.Equal(t, []string{"1 0 VALID " + id, "1 1 DUPLICATE_TXID " + id, "2 0 VALID " + openID}, live.Verdicts[1:])
	assert.EqualValues(t, 2, live.Height)
	assert.EqualValues(t, 1, live.OpenTxs)
	assert.Equal(t, 2, live.Keys)
	require.NoError(t, r.stop())
	after, err := Inspect(dir, true)
	require.NoError(t, err)
	assert.Equal(t, live, after)

	_, err = Inspect(t.TempDir(), false)
	assert.ErrorContains(t, err, "holds no blocks")
	_, err = Inspect(filepath.Join(dir, "none"), false)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestInspectFindsWhatChecksumsCannot: blocks that were rewritten by somebody who
// knows the file format.
func TestInspectFindsWhatChecksumsCannot(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	for _, key := range []string{"a", "b"} {
		raw, _ := w.Make(put(w, key, "1"))
		r.add(raw)
		r.seal()
	}
	r.settle()
	var blocks []*commonpb.Block
	for n := range r.Height() {
		b, err := r.Block(n)
		require.NoError(t, err)
		blocks = append(blocks, b)
	}
	require.NoError(t, r.stop())
	other, _ := w.Make(put(w, "a", "1000"))
	for want, forge := range map[string]func(b *commonpb.Block){
		"data hash":       func(b *commonpb.Block) { b.Data.Data[0] = other },
		"commit hash":     func(b *commonpb.Block) { b.Metadata.Metadata[commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER][0] = 11 },
		"hash of the blo": func(b *commonpb.Block) { b.Header.PreviousHash = []byte("x") },
		"block signature": func(b *commonpb.Block) { b.Metadata.Metadata[0] = nil },
		"validation flag": func(b *commonpb.Block) { b.Metadata.Metadata[2] = []byte{0, 0} },
	} {
		t.Run(want, func(t *testing.T) {
			forged := t.TempDir()
			store, err := blockfile.Open(forged, blockfile.Options{})
			require.NoError(t, err)
			for n, b := range blocks {
				if n == 1 {
					b = proto.Clone(b).(*commonpb.Block)
					forge(b)
					if want == "hash of the blo" { // a signature over the forged header would need the orderer's key
						_, m := (&peertest.Orderer{World: w, Number: 1, Previous: []byte("x")}).Seal(b.Data.Data)
						b.Metadata.Metadata[0] = m.Metadata[0]
					}
				}
				require.NoError(t, store.AppendBlock(b))
			}
			require.NoError(t, store.Close())
			_, err = Inspect(forged, false)
			require.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "block 1")
		})
	}
}

// TestInspectAnOrderersLedger: its blocks have no verdicts, and lie in a folder of their own.
func TestInspectAnOrderersLedger(t *testing.T) {
	w := streamWorld(t)
	channel := t.TempDir()
	dir := filepath.Join(channel, "blocks")
	store, err := blockfile.Open(dir, blockfile.Options{})
	require.NoError(t, err)
	require.NoError(t, store.AppendBlock(w.Genesis))
	raw, _ := w.Make(put(w, "a", "1"))
	orders := w.NewOrderer()
	header, metadata := orders.Seal([][]byte{raw})
	require.NoError(t, store.AppendTx(1, 0, raw, 0))
	require.NoError(t, store.AppendSeal(header, metadata))
	require.NoError(t, store.Close())
	for _, of := range []string{channel, dir} {
		report, err := Inspect(of, false)
		require.NoError(t, err)
		assert.Equal(t, &Report{Channel: peertest.Channel, Height: 2, Transactions: 2, LastHash: hex.EncodeToString(orders.Previous)}, report)
	}
}
