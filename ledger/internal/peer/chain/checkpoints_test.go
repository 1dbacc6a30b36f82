package chain

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/peer/checkpoint"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// copyLedger gives a ledger's files a second place.
func copyLedger(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "ledger")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// withoutCheckpoints copies a ledger so that its next start replays everything.
func withoutCheckpoints(t *testing.T, dir string) string {
	t.Helper()
	to := copyLedger(t, dir)
	require.NoError(t, os.RemoveAll(filepath.Join(to, checkpointFolder)))
	return to
}

// live commits blocks that write, overwrite, delete, repeat an id and change the configuration,
// and leaves one open; it gives the transactions' ids and one of the envelopes.
func live(t *testing.T, w *peertest.World, r *rig) (taken []string, old []byte) {
	for i := range 12 {
		for j := range 3 {
			raw, id := w.Make(put(w, fmt.Sprint("key", (i*3+j)%10), fmt.Sprint(i, j)))
			r.add(raw)
			taken, old = append(taken, id), raw
		}
		if i == 5 {
			r.add(old) // a duplicate
		}
		r.seal()
		if i == 7 {
			r.add(reconfigure(t, w, 1, "Org1MSP", "Org2MSP"))
			r.seal()
		}
		r.settle()
	}
	raw, id := w.Make(peertest.Tx{Chaincode: "both"})
	r.add(raw)
	r.settle()
	return append(taken, id), old
}

func TestAStartFromACheckpointEqualsAReplay(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	every := Options{CheckpointEvery: 7, Files: smallSegments}
	r := startRig(t, w, dir, every)
	taken, old := live(t, w, r)
	want, position := r.fingerprint(), r.Position()
	require.NoError(t, r.stop())

	for name, c := range map[string]struct {
		dir  string
		from bool
	}{"checkpoint": {copyLedger(t, dir), true}, "replay": {withoutCheckpoints(t, dir), false}} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, w, c.dir, every)
			assert.Equal(t, c.from, r.covered > 30, "%d transactions came from a checkpoint", r.covered)
			assert.Equal(t, want, r.fingerprint())
			assert.Equal(t, position, r.Position())
			assert.EqualValues(t, 1, r.Bundle().Sequence)
			for i, id := range taken {
				s, err := r.Find(id)
				assert.NoError(t, err, "transaction %d", i)
				assert.Equal(t, id == taken[len(taken)-1], s.Position.Block == position.Block)
			}
			// What is old stays taken, and the chain goes on alike.
			r.add(old)
			raw, id := w.Make(put(w, "after", "1"))
			r.add(raw)
			assert.EqualValues(t, peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE, r.status(id).Code, "the new configuration holds")
			r.settle()
			dup, err := r.Find(taken[len(taken)-2])
			require.NoError(t, err)
			assert.Less(t, dup.Position.Block, position.Block, "the copy has not taken the first one's place")
			require.NoError(t, r.stop())
		})
	}
}

// TestUnusableCheckpointsOnlyCostTime damages the newest, then both, then takes the end of
// the chain away from under them.
func TestUnusableCheckpointsOnlyCostTime(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	every := Options{CheckpointEvery: 7}
	r := startRig(t, w, dir, every)
	live(t, w, r)
	want := r.fingerprint()
	require.NoError(t, r.stop())
	files, err := checkpoint.Files(filepath.Join(dir, checkpointFolder))
	require.NoError(t, err)
	require.Len(t, files, 2)
	last := uint64(1 << 60)
	for _, file := range []string{"", filepath.Base(files[1]), filepath.Base(files[0])} {
		if file != "" {
			path := filepath.Join(dir, checkpointFolder, file)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			raw[len(raw)/2]++
			require.NoError(t, os.WriteFile(path, raw, 0o644))
		}
		r := startRig(t, w, copyLedger(t, dir), every)
		assert.Equal(t, want, r.fingerprint())
		assert.Less(t, r.covered, last, "an older one is used, or none")
		last = r.covered
		require.NoError(t, r.stop())
	}
	assert.Zero(t, last)
}

func TestACheckpointAheadOfTheChainIsNotUsed(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{CheckpointEvery: 7})
	live(t, w, r)
	require.NoError(t, r.stop())
	files, err := checkpoint.Files(filepath.Join(dir, checkpointFolder))
	require.NoError(t, err)
	require.NoError(t, os.Remove(files[0])) // it may lie before the cut
	segment := filepath.Join(dir, "segment-000000.blk")
	info, err := os.Stat(segment)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(segment, info.Size()/3))
	plain := startRig(t, w, withoutCheckpoints(t, dir), Options{})
	want := plain.fingerprint()
	require.NoError(t, plain.stop())
	r = startRig(t, w, dir, Options{CheckpointEvery: 7})
	assert.Zero(t, r.covered)
	assert.Equal(t, want, r.fingerprint())
}

func TestACheckpointThatCannotBeWrittenDisturbsNobody(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{CheckpointEvery: 7})
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpointFolder), nil, 0o644))
	taken, _ := live(t, w, r)
	r.status(taken[len(taken)-1])
	want := r.fingerprint()
	require.NoError(t, r.stop())
	require.NoError(t, os.Remove(filepath.Join(dir, checkpointFolder)))
	r = startRig(t, w, dir, Options{CheckpointEvery: 7})
	assert.Zero(t, r.covered)
	assert.Equal(t, want, r.fingerprint())
}

// TestInspectHoldsCheckpointsAgainstTheChain: one whose checksum is right and whose state is not is damage.
func TestInspectHoldsCheckpointsAgainstTheChain(t *testing.T) {
	w := streamWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{CheckpointEvery: 7})
	live(t, w, r)
	hash := r.Snapshot().Hash()
	want := r.fingerprint()
	require.NoError(t, r.stop())
	report, err := Inspect(dir, false)
	require.NoError(t, err)
	assert.Equal(t, hex.EncodeToString(hash[:]), report.StateHash)
	assert.Equal(t, want[len(want)-1], report.StateHash)
	require.Len(t, report.Checkpoints, 2)

	newest := report.Checkpoints[1]
	assert.Empty(t, newest.Problem)
	saved, err := checkpoint.Load(newest.File, nil)
	require.NoError(t, err)
	saved.State.Apply(statedb.Version{Block: 1}, []statedb.Write{{Namespace: "kv", Key: "key1", Value: []byte("other")}})
	folder := checkpoint.Open(filepath.Dir(newest.File), nil)
	require.NoError(t, folder.Save(saved.Point, saved.State.Snapshot(), saved.Refused))
	_, err = Inspect(dir, false)
	require.ErrorContains(t, err, "its state hash is")

	require.NoError(t, os.Truncate(newest.File, 100))
	report, err = Inspect(dir, false)
	require.NoError(t, err)
	require.Len(t, report.Checkpoints, 1)
	assert.Contains(t, report.Checkpoints[0].Problem, "checksum")
}

// TestACheckpointIsHurriedWhenTheNextOneIsDue: on a starved host the pauses would leave ever more to replay.
func TestACheckpointIsHurriedWhenTheNextOneIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCheckpoints(t.TempDir(), 100, newIndex())
		k.rest.During(t.Context())
		at := func(transactions uint64) *mark { return &mark{Point: checkpoint.Point{Transactions: transactions}} }
		// pauses has a file written that takes 1 ms for each of its parts.
		pauses := func() time.Duration {
			began := time.Now()
			require.NoError(t, durable.Replace(t.TempDir(), "file", k.rest, func(w *durable.Writer) error {
				for range 10 {
					time.Sleep(time.Millisecond)
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						return err
					}
				}
				return nil
			}))
			return time.Since(began) - 10*time.Millisecond
		}
		k.offer(at(1000))
		require.True(t, k.busy.Load())
		assert.Positive(t, pauses())
		k.offer(at(1099))
		assert.Positive(t, pauses())
		k.offer(at(1100))
		assert.Zero(t, pauses())
		<-k.due
		k.busy.Store(false)
		k.offer(at(1200))
		assert.Positive(t, pauses(), "the next one has its time")
	})
}
