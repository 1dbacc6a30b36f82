package chain

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// idFiles are a ledger's files of ids; there must be some.
func idFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := txids.Files(filepath.Join(dir, idsFolder))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// again sends transactions a second time, and says how many of them are duplicates.
func again(t *testing.T, r *rig, envelopes [][]byte) int {
	t.Helper()
	for _, raw := range envelopes {
		r.add(raw)
	}
	number := r.Position().Block
	r.seal()
	r.settle()
	block, err := r.Block(number)
	require.NoError(t, err)
	duplicates := 0
	for _, code := range Flags(block) {
		if Code(code) == peerpb.TxValidationCode_DUPLICATE_TXID {
			duplicates++
		}
	}
	return duplicates
}

// some makes transactions in blocks of their own, whose ids go to disk.
func some(t *testing.T, w *peertest.World, r *rig, n int) (envelopes [][]byte, ids []string) {
	t.Helper()
	for i := range n {
		raw, id := w.Make(put(w, fmt.Sprint("key", i), "1"))
		r.add(raw)
		r.seal()
		envelopes, ids = append(envelopes, raw), append(ids, id)
	}
	r.settle()
	return envelopes, ids
}

// TestIDsOnDiskStayTaken also where their files are lost or damaged, and a checkpoint spares the replay.
func TestIDsOnDiskStayTaken(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	every := Options{CheckpointEvery: 10}
	r := startRig(t, w, dir, every)
	envelopes, ids := some(t, w, r, 30)
	require.NoError(t, r.stop())
	orders := r.orders

	for name, spoil := range map[string]func(t *testing.T, dir string){
		"as they are": func(*testing.T, string) {},
		"lost":        func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, idsFolder))) },
		"another chain's": func(t *testing.T, dir string) {
			of := t.TempDir()
			other := startRig(t, w, of, every)
			some(t, w, other, 20)
			require.NoError(t, other.stop())
			for _, file := range idFiles(t, dir) {
				require.NoError(t, os.Remove(file))
			}
			require.NoError(t, os.CopyFS(filepath.Join(dir, idsFolder), os.DirFS(filepath.Dir(idFiles(t, of)[0]))))
		},
		"torn": func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(idFiles(t, dir)[0], 5000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := copyLedger(t, dir)
			spoil(t, at)
			r := startRig(t, w, at, every)
			next := *orders
			r.orders = &next
			assert.EqualValues(t, 31, r.covered, "with the genesis block")
			for i, id := range ids {
				s, err := r.Find(id)
				assert.NoError(t, err)
				assert.Equal(t, Position{Block: uint64(i) + 1}, s.Position)
				assert.Equal(t, s, r.status(id))
			}
			hashesLead(t, r)
			assert.Equal(t, len(envelopes), again(t, r, envelopes))
			require.NoError(t, r.stop())
			_, err := Inspect(at, false)
			assert.NoError(t, err)
		})
	}
}

// TestADamagedPageOfIDsStopsThePeer, since whether an id is taken is not known then; the next start mends it.
func TestADamagedPageOfIDsStopsThePeer(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	every := Options{CheckpointEvery: 10}
	r := startRig(t, w, dir, every)
	envelopes, ids := some(t, w, r, 30)
	orders := r.orders
	require.NoError(t, r.stop())
	file := idFiles(t, dir)[0]
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	raw[4096+7]++ // in the first page of records
	require.NoError(t, os.WriteFile(file, raw, 0o644))
	report, err := Inspect(dir, false)
	require.NoError(t, err)
	assert.Contains(t, report.IDs[0].Problem, "the checksum of page 0 does not fit")

	r = startRig(t, w, dir, every)
	_, err = r.Find(ids[0])
	require.ErrorIs(t, err, txids.ErrDamaged)
	r.add(envelopes[0])
	require.ErrorContains(t, <-r.ended, "duplicate check: ")
	r.ended <- nil
	require.NoError(t, r.stop())
	r = startRig(t, w, dir, every)
	r.orders = orders
	assert.Equal(t, len(envelopes), again(t, r, envelopes))
}

// TestIDsLeaveMemory beside the pipeline, and in a long replay.
func TestIDsLeaveMemory(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{CheckpointEvery: -1})
	r.saved.spill = 5
	envelopes, ids := some(t, w, r, 40)
	x := r.ledger.index
	for x.inMemory() >= 5 { // the newest mark has been offered; what is on its way gets there
		some(t, w, r, 1)
	}
	assert.Equal(t, x.inMemory(), len(x.recent))
	assert.Positive(t, x.old.Blocks())
	for _, id := range ids {
		_, err := r.Find(id)
		assert.NoError(t, err)
	}
	hashesLead(t, r)
	assert.Equal(t, len(envelopes), again(t, r, envelopes))
}

// hashesLead checks that every block is found by the hash of its header, and that no hash is taken for an id.
func hashesLead(t *testing.T, r *rig) {
	t.Helper()
	for n := range r.Height() {
		block, err := r.Block(n)
		require.NoError(t, err)
		hash := protoutil.BlockHeaderHash(block.Header)
		found, err := r.BlockByHash(hash)
		require.NoError(t, err)
		assert.True(t, proto.Equal(block, found))
		_, err = r.Find(hex.EncodeToString(hash))
		assert.ErrorIs(t, err, ErrNotFound)
		_, err = r.Status(context.Background(), hex.EncodeToString(hash))
		assert.ErrorContains(t, err, fmt.Sprintf("it is the hash of block %d", n))
	}
}

// TestOnlySealedBlocksAreFoundByHash: an id leads to no block, and a hash of another length nowhere.
func TestOnlySealedBlocksAreFoundByHash(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	_, ids := some(t, w, r, 1)
	id, err := hex.DecodeString(ids[0])
	require.NoError(t, err)
	for name, hash := range map[string][]byte{"an id": id, "unknown": make([]byte, 32), "short": {1}, "none": nil} {
		_, err := r.BlockByHash(hash)
		assert.ErrorIs(t, err, ErrNotFound, name)
	}
}
