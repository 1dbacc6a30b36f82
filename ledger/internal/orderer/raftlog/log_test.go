package raftlog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

var voters = []uint64{1, 2, 3}

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(dir, voters)
	require.NoError(t, err)
	return l
}

func entry(index uint64, data []byte) *raftpb.Entry {
	return &raftpb.Entry{Index: proto.Uint64(index), Term: proto.Uint64(2), Data: data}
}

func save(t *testing.T, l *Log, from, to uint64, data []byte) {
	t.Helper()
	for i := from; i <= to; i++ {
		state := &raftpb.HardState{Term: proto.Uint64(2), Vote: proto.Uint64(1), Commit: proto.Uint64(i)}
		require.NoError(t, l.Save(state, []*raftpb.Entry{entry(i, data)}))
	}
}

func last(t *testing.T, l *Log) uint64 {
	t.Helper()
	index, err := l.Memory.LastIndex()
	require.NoError(t, err)
	return index
}

func TestALogIsReadBack(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 9, []byte("x"))
	require.NoError(t, l.Close())
	l = open(t, dir)
	assert.Equal(t, uint64(9), last(t, l))
	state, conf, err := l.Memory.InitialState()
	require.NoError(t, err)
	assert.Equal(t, uint64(2), state.GetTerm())
	assert.Equal(t, uint64(9), state.GetCommit())
	assert.Equal(t, voters, conf.Voters)
	require.NoError(t, l.Close())
}

func TestATornTailIsCutOff(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 9, bytes.Repeat([]byte("x"), 5000))
	require.NoError(t, l.Close())
	files, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	end := len(bytes.TrimRight(raw, "\x00"))
	require.NoError(t, os.Truncate(files[0], int64(end-2500)))

	l = open(t, dir)
	assert.Equal(t, uint64(8), last(t, l))
	save(t, l, 9, 12, []byte("y"))
	require.NoError(t, l.Close())
	l = open(t, dir)
	assert.Equal(t, uint64(12), last(t, l))
	require.NoError(t, l.Close())
}

func TestALogWithoutItsSnapshotIsRefused(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	require.NoError(t, l.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "snap")))
	_, err := Open(dir, voters)
	require.ErrorContains(t, err, "no snapshot")
}

func TestCompactionRemovesOldFilesAndKeepsWhatIsNeeded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	big := bytes.Repeat([]byte("x"), SegmentBytes/4)
	index := uint64(1)
	for round := range 6 {
		save(t, l, index+1, index+5, big)
		index += 5
		require.NoError(t, l.Compact(index, uint64(round), nil))
	}
	files, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(files), 4)
	snaps, err := filepath.Glob(filepath.Join(dir, "snap", "*"))
	require.NoError(t, err)
	assert.Len(t, snaps, 2)
	first, err := l.Memory.FirstIndex()
	require.NoError(t, err)
	assert.Equal(t, index-4, first, "entries since the snapshot before the last are kept for slow nodes")
	save(t, l, index+1, index+2, []byte("y"))
	require.NoError(t, l.Close())

	l = open(t, dir)
	assert.Equal(t, index+2, last(t, l))
	snapshot, err := l.Memory.Snapshot()
	require.NoError(t, err)
	assert.Equal(t, index, snapshot.GetMetadata().GetIndex())
	height, err := Height(snapshot)
	require.NoError(t, err)
	assert.Equal(t, uint64(5), height)
	require.NoError(t, l.Close())
}

func TestASnapshotFileThatTheLogDoesNotKnowIsIgnored(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 9, []byte("x"))
	_, err := writeSnapshot(l.snapDir(), NewSnapshot(8, 2, voters, 3))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l = open(t, dir)
	assert.Equal(t, uint64(9), last(t, l))
	snapshot, err := l.Memory.Snapshot()
	require.NoError(t, err)
	assert.Equal(t, uint64(1), snapshot.GetMetadata().GetIndex())
	require.NoError(t, l.Close())
}

func TestADamagedSnapshotIsRefused(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	require.NoError(t, l.Close())
	files, err := filepath.Glob(filepath.Join(dir, "snap", "*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], []byte("nonsense"), 0o600))
	_, err = Open(dir, voters)
	require.ErrorContains(t, err, "is damaged")
}

func TestLogAndLedgerMustBelongTogether(t *testing.T) {
	l := open(t, t.TempDir())
	save(t, l, 2, 4, []byte("x"))
	require.NoError(t, l.MarkCommitted(4))
	require.ErrorContains(t, l.MarkCommitted(5), "do not belong together")
	require.NoError(t, l.Close())
}
