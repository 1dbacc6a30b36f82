package chain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// put is a transaction that writes one key without reading.
func put(w *peertest.World, key, value string) peertest.Tx {
	return peertest.Tx{Results: w.Simulate(statedb.New().Snapshot(), func(s *rwset.Simulator) {
		_ = s.Put("kv", key, []byte(value))
	})}
}

func TestATransactionIsCommittedBeforeItsBlockIsSealed(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	raw, id := w.Make(put(w, "a", "1"))
	waited := make(chan Status, 1)
	go func() { waited <- r.status(id) }() // asked before
	r.add(raw)
	want := Status{Code: valid, Position: Position{1, 0}}
	assert.Equal(t, want, <-waited)
	assert.Equal(t, want, r.status(id), "asked after")
	assert.EqualValues(t, 1, r.Height(), "only genesis is sealed")
	assert.Equal(t, "1", string(r.Snapshot().Get("kv", "a").Value))
	r.seal()
	r.settle()
	assert.EqualValues(t, 2, r.Height())
	block, err := r.Block(1)
	require.NoError(t, err)
	assert.Equal(t, []byte{0}, Flags(block))
	assert.NotEmpty(t, CommitHash(block))
	assert.Equal(t, []Record{{TxID: id, Type: commonpb.HeaderType_ENDORSER_TRANSACTION}}, RecordsOf(block, r.ID()))
}

func TestStatusOfNothing(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, id := w.Make(peertest.Tx{})
	_, err := r.Status(ctx, id)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Zero(t, r.ledger.index.waiters, "who gave up is forgotten")
	assert.Empty(t, r.ledger.index.waiting)
	_, err = r.Status(context.Background(), "x")
	assert.ErrorContains(t, err, "64 hexadecimal digits")
	r.cancel()
	_, err = r.Status(context.Background(), id)
	assert.ErrorIs(t, err, ErrStopped)
}

func TestTheSameEnvelopeTwice(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.add(raw)
	r.seal()
	r.add(raw)
	r.seal()
	r.settle()
	var flags []byte
	for n := uint64(1); n < r.Height(); n++ {
		b, err := r.Block(n)
		require.NoError(t, err)
		flags = append(flags, Flags(b)...)
	}
	dup := byte(peerpb.TxValidationCode_DUPLICATE_TXID)
	assert.Equal(t, []byte{0, dup, dup}, flags)
	assert.Equal(t, Status{Position: Position{1, 0}}, r.status(id), "the first one counts")
}

// TestACopiedIDBlocksNobody: a forged transaction with somebody's id does not make his a duplicate.
func TestACopiedIDBlocksNobody(t *testing.T) {
	w := streamWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	tx := put(w, "a", "1")
	tx.Nonce = []byte("nonce")
	good, id := w.Make(tx)
	tx.Change = func(p *peertest.Parts) { p.Envelope = func(e *commonpb.Envelope) { e.Signature[9]++ } }
	forged, same := w.Make(tx)
	require.Equal(t, id, same)
	r.add(forged)
	r.add(good)
	assert.Equal(t, Status{Code: valid, Position: Position{1, 1}}, r.status(id))
}

// TestABlockWhoseSealDoesNotFitIsTakenBack: what was received for it has left no trace, and the
// block that is received next in its place counts, also after a restart.
func TestABlockWhoseSealDoesNotFitIsTakenBack(t *testing.T) {
	w := streamWorld(t)
	raw, id := w.Make(put(w, "a", "1"))
	for name, spoil := range map[string]func(*peertest.Orderer) (*commonpb.BlockHeader, *commonpb.BlockMetadata){
		"number": func(o *peertest.Orderer) (*commonpb.BlockHeader, *commonpb.BlockMetadata) {
			o.Number = 2
			return o.Seal([][]byte{raw})
		},
		"chain": func(o *peertest.Orderer) (*commonpb.BlockHeader, *commonpb.BlockMetadata) {
			o.Previous = []byte("x")
			return o.Seal([][]byte{raw})
		},
		"data": func(o *peertest.Orderer) (*commonpb.BlockHeader, *commonpb.BlockMetadata) { return o.Seal(nil) },
		"no metadata": func(o *peertest.Orderer) (*commonpb.BlockHeader, *commonpb.BlockMetadata) {
			h, _ := o.Seal([][]byte{raw})
			return h, nil
		},
		"signature of another header": func(o *peertest.Orderer) (*commonpb.BlockHeader, *commonpb.BlockMetadata) {
			_, m := o.Seal(nil)
			o.Number, o.Previous = 1, w.NewOrderer().Previous
			h, _ := o.Seal([][]byte{raw})
			return h, m
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := startRig(t, w, dir, Options{})
			before := r.fingerprint()
			require.NoError(t, r.Add(context.Background(), raw))
			r.status(id) // reported, too early
			rewound := r.Rewound()
			header, metadata := spoil(r.orders)
			require.NoError(t, r.Seal(context.Background(), header, metadata))
			<-rewound
			assert.ErrorIs(t, r.Add(context.Background(), raw), ErrRewound)
			assert.Equal(t, Position{1, 0}, r.Position())
			r.settle()
			assert.Equal(t, before, r.fingerprint())
			_, err := r.Find(id)
			assert.ErrorIs(t, err, ErrNotFound)

			r.orders = w.NewOrderer()
			other, otherID := w.Make(put(w, "a", "other"))
			r.add(other)
			r.add(raw) // it comes again, elsewhere
			assert.Equal(t, Status{Position: Position{1, 0}}, r.status(otherID))
			assert.Equal(t, Status{Position: Position{1, 1}}, r.status(id))
			r.seal()
			r.settle()
			want := r.fingerprint()
			require.NoError(t, r.stop())
			r = startRig(t, w, dir, Options{CheckpointEvery: -1})
			assert.Equal(t, want, r.fingerprint())
		})
	}
}

// TestALyingTailIsTakenBackAfterARestart: the process ended before the seal showed that what it has on
// disk is not the order.
func TestALyingTailIsTakenBackAfterARestart(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	r.add(w.Raw(put(w, "sealed", "1")))
	r.seal()
	lie, lieID := w.Make(put(w, "a", "lie"))
	r.add(lie)
	r.status(lieID)
	orders := r.orders
	require.NoError(t, r.stop())
	r = startRig(t, w, dir, Options{})
	r.orders = orders
	rewound := r.Rewound()
	truth := w.Raw(put(w, "a", "truth"))
	header, metadata := r.orders.Seal([][]byte{truth})
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	<-rewound
	require.Equal(t, Position{2, 0}, r.Position())
	require.NoError(t, r.Add(context.Background(), truth))
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	r.settle()
	assert.EqualValues(t, 3, r.Height())
	assert.Equal(t, "truth", string(r.Snapshot().Get("kv", "a").Value))
}

func TestTheWrongGenesisIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, startRig(t, streamWorld(t), dir, Options{}).stop())
	_, err := Open(dir, streamWorld(t).Genesis, Options{})
	assert.ErrorContains(t, err, "another network")
}

// failingDisk fails every fsync once it is told to.
type failingDisk struct {
	blockfile.File
	broken *bool
}

func (f failingDisk) Sync() error {
	if *f.broken {
		return errors.New("input/output error")
	}
	return f.File.Sync()
}

func TestAnFsyncErrorStopsThePeerAndReportsNothing(t *testing.T) {
	w := streamWorld(t)
	broken := false
	r := startRig(t, w, t.TempDir(), Options{Files: blockfile.Options{OpenFile: func(path string) (blockfile.File, error) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
		return failingDisk{f, &broken}, err
	}}})
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.status(id)
	broken = true
	raw, id = w.Make(put(w, "b", "1"))
	r.add(raw)
	_, err := r.Status(context.Background(), id)
	assert.ErrorIs(t, err, ErrStopped)
	err = <-r.ended
	assert.ErrorContains(t, err, "fsync")
	r.cancel() // the store refuses to close cleanly, as it should
	r.cancel = nil
	_ = r.Close()
}

// TestRestartAtEveryByte cuts the files of a run at many places: what is left
// replays, and the same input again leads to the same end.
func TestRestartAtEveryByte(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	var txs [][]byte
	var blocks []int // how many transactions each has
	for i := range 4 {
		for j := range 2 {
			raw, _ := w.Make(put(w, string(rune('a'+i)), string(rune('0'+j))))
			txs = append(txs, raw)
			r.add(raw)
		}
		blocks = append(blocks, 2)
		r.seal()
	}
	raw, _ := w.Make(put(w, "open", "1"))
	txs = append(txs, raw)
	r.add(raw)
	r.settle()
	want := r.fingerprint()
	require.NoError(t, r.stop())
	path := filepath.Join(dir, "segment-000000.blk")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)

	for cut := 0; cut <= len(whole); cut += 997 {
		again := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(again, filepath.Base(path)), whole[:cut], 0o644))
		r := startRig(t, w, again, Options{})
		replayInput(r, txs, blocks)
		r.settle()
		require.Equal(t, want, r.fingerprint(), "cut at %d", cut)
		require.NoError(t, r.stop())
	}
}

// replayInput sends a chain everything that it does not have.
func replayInput(r *rig, txs [][]byte, blocks []int) {
	r.t.Helper()
	from := r.Position()
	for number, size := range append(blocks, len(txs)) {
		n := uint64(number + 1)
		size = min(size, len(txs))
		for i, raw := range txs[:size] {
			if !(Position{n, uint64(i)}).Before(from) {
				require.NoError(r.t, r.Add(context.Background(), raw))
			}
		}
		if number < len(blocks) {
			header, metadata := r.orders.Seal(txs[:size])
			if n >= from.Block {
				require.NoError(r.t, r.Seal(context.Background(), header, metadata))
			}
		}
		txs = txs[size:]
	}
}
