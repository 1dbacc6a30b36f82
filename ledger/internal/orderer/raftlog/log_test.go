package raftlog

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops/opstest"
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

// TestWhatIsReadBackIsSynced: a process that was killed may have left it to the page cache, and it is acknowledged again
// without another write.
func TestWhatIsReadBackIsSynced(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 3, []byte("x"))
	require.NoError(t, l.Close())
	before := syncs(t)
	l = open(t, dir)
	assert.Equal(t, before+1, syncs(t))
	require.NoError(t, l.Close())
}

// syncs is how often logs were synced in this process.
func syncs(t *testing.T) float64 {
	return opstest.Value(t, prometheus.DefaultGatherer, "etcd_disk_wal_fsync_duration_seconds_count")
}

// TestEveryTornTailIsCutOff ends the log within its last entries, at every byte where nothing is behind, and at every sector
// where the zeroes are of a file that is made at its full size. What was saved before is there, and the log goes on.
func TestEveryTornTailIsCutOff(t *testing.T) {
	full := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 64 << 10
	defer func() { wal.SegmentSizeBytes = full }()
	for name, c := range map[string]struct {
		size, step int
		zeroes     bool
	}{"nothing behind": {size: 60, step: 1}, "zeroes behind": {size: 5000, step: 512, zeroes: true}} {
		t.Run(name, func(t *testing.T) {
			dir, data := t.TempDir(), bytes.Repeat([]byte("x"), c.size)
			l := open(t, dir)
			save(t, l, 2, 5, data)
			_, safe := logFile(t, dir)
			save(t, l, 6, 8, data)
			require.NoError(t, l.Close())
			raw, end := logFile(t, dir)
			before := uint64(5)
			for cut := (safe + c.step - 1) / c.step * c.step; cut < end; cut += c.step {
				torn := raw[:cut:cut]
				if c.zeroes {
					torn = append(torn, make([]byte, len(raw)-cut)...)
				}
				writeLogFile(t, dir, torn)
				l := open(t, dir)
				opened, _ := logFile(t, dir)
				require.GreaterOrEqual(t, len(opened), len(torn), "each sync of a file that grows writes its size, too")
				found := last(t, l)
				require.GreaterOrEqual(t, found, before, "cut at %d", cut)
				before = found
				entries, err := l.Memory.Entries(2, found+1, 1<<30)
				require.NoError(t, err)
				for _, e := range entries {
					require.Equal(t, data, e.GetData())
				}
				save(t, l, found+1, found+2, []byte("y"))
				require.NoError(t, l.Close())
				l = open(t, dir)
				require.Equal(t, found+2, last(t, l), "cut at %d", cut)
				require.NoError(t, l.Close())
			}
			assert.GreaterOrEqual(t, before, uint64(7), "the last cut is in the last entry, or behind it")
			copies, err := filepath.Glob(filepath.Join(dir, "wal", "*.broken"))
			require.NoError(t, err)
			assert.Empty(t, copies, "etcd's repair of a file copies it, for which a full disk has no room")
		})
	}
}

// TestATornWriteAfterASnapshotOfAnothersIsCutOff, wherever it ends: the entries that came with the snapshot begin after it.
func TestATornWriteAfterASnapshotOfAnothersIsCutOff(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 5, []byte("x"))
	_, safe := logFile(t, dir)
	state := &raftpb.HardState{Term: proto.Uint64(2), Vote: proto.Uint64(1), Commit: proto.Uint64(100)}
	require.NoError(t, l.SaveSnapshot(NewSnapshot(100, 2, voters, 7), state))
	_, taken := logFile(t, dir)
	require.NoError(t, l.Save(state, []*raftpb.Entry{entry(101, []byte("y")), entry(102, []byte("y"))}))
	require.NoError(t, l.Close())
	raw, end := logFile(t, dir)
	for cut := safe; cut < end; cut++ {
		writeLogFile(t, dir, raw[:cut:cut])
		l, err := Open(dir, voters)
		require.NoError(t, err, "cut at %d", cut)
		found := last(t, l)
		if cut < taken {
			require.Contains(t, []uint64{5, 100}, found, "cut at %d", cut)
		} else {
			require.Contains(t, []uint64{100, 101, 102}, found, "cut at %d", cut)
		}
		save(t, l, found+1, found+2, []byte("z"))
		require.NoError(t, l.Close())
		l = open(t, dir)
		require.Equal(t, found+2, last(t, l), "cut at %d", cut)
		require.NoError(t, l.Close())
	}
}

func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(dir, "wal"))
	require.NoError(t, err)
	var files []string
	for _, one := range all {
		if strings.HasSuffix(one.Name(), ".wal") {
			files = append(files, filepath.Join(dir, "wal", one.Name()))
		}
	}
	return files
}

// logFile reads the only file, and where what was written to it ends.
func logFile(t *testing.T, dir string) (raw []byte, end int) {
	t.Helper()
	files := logFiles(t, dir)
	require.Len(t, files, 1)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	return raw, len(bytes.TrimRight(raw, "\x00"))
}

// writeLogFile puts one in the place of all that a log has become.
func writeLogFile(t *testing.T, dir string, raw []byte) {
	t.Helper()
	files := logFiles(t, dir)
	for _, later := range files[1:] {
		require.NoError(t, os.Remove(later))
	}
	require.NoError(t, os.WriteFile(files[0], raw, 0o600))
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

// TestWhatIsKeptBeginsAfterTheNewestSnapshot, and with block 1 where there is none but the first.
func TestWhatIsKeptBeginsAfterTheNewestSnapshot(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Kept(dir)
	require.Error(t, err, "there is no log")
	l := open(t, dir)
	save(t, l, 2, 9, []byte("x"))
	require.NoError(t, l.Close())
	kept, last, err := Kept(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 1, kept)
	assert.EqualValues(t, 9, last)
	l = open(t, dir)
	require.NoError(t, l.Compact(5, 4, nil))
	require.NoError(t, l.Compact(7, 6, nil))
	require.NoError(t, l.Close())
	kept, last, err = Kept(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 6, kept)
	assert.EqualValues(t, 9, last)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "snap")))
	_, _, err = Kept(dir)
	require.ErrorIs(t, err, os.ErrNotExist)

	joins := t.TempDir()
	l, err = Open(joins, nil)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, _, err = Kept(joins)
	require.Error(t, err, "it has not been sent a snapshot yet")
}

// TestOfALogThatLacksAFileNothingIsKept, or it ends where the file before does: the last one leaves no trace.
func TestOfALogThatLacksAFileNothingIsKept(t *testing.T) {
	const perFile = 5
	smallFiles(t)
	for missing := range 3 {
		dir := t.TempDir()
		l := open(t, dir)
		for i := range uint64(3 * perFile) {
			save(t, l, 2+i, 2+i, make([]byte, wal.SegmentSizeBytes/(perFile-1)))
		}
		save(t, l, 2+3*perFile, 2+3*perFile, []byte("in the last file"))
		require.NoError(t, l.Close())
		_, whole, err := Kept(dir)
		require.NoError(t, err)
		assert.EqualValues(t, 2+3*perFile, whole)
		files, err := l.files(".wal")
		require.NoError(t, err)
		require.Greater(t, len(files), 2)
		at := missing * (len(files) - 1) / 2
		require.NoError(t, os.Remove(files[at]))
		_, last, err := Kept(dir)
		if at == len(files)-1 {
			require.NoError(t, err)
			assert.Less(t, last, whole)
			continue
		}
		require.Error(t, err, files[at])
	}
}
