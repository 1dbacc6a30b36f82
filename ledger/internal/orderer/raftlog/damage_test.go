package raftlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// smallFiles has a log's files be so large that each case of a table can have one.
func smallFiles(t *testing.T) {
	full := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 64 << 10
	t.Cleanup(func() { wal.SegmentSizeBytes = full })
}

// starts are where the frames of a file begin, and where the last one ends.
func starts(t *testing.T, raw []byte) []int {
	t.Helper()
	at := []int{0}
	for end := 0; ; at = append(at, end) {
		length := binary.LittleEndian.Uint64(raw[end:])
		if length == 0 {
			return at
		}
		end += 8 + int(length&(1<<56-1)+length>>56&7)
	}
}

// refused says of which bytes of a log with damage an error is told, and that the log is left as it is.
func refused(t *testing.T, dir string, raw []byte, why string) {
	t.Helper()
	writeLogFile(t, dir, raw)
	_, _, err := Kept(dir)
	require.ErrorIs(t, err, ErrDamaged, why)
	l, err := Open(dir, voters)
	if err == nil {
		found := last(t, l)
		require.NoError(t, l.Close())
		require.Fail(t, "the log is opened", "%s: it ends at entry %d", why, found)
	}
	require.ErrorIs(t, err, ErrDamaged, why)
	after, err := os.ReadFile(logFiles(t, dir)[0])
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw, after), "%s: the file was changed", why)
}

// TestDamageBeforeWhatWasSyncedIsRefused flips each bit of each length, and bytes, of all frames but those of the last
// sync: a log that ended there would have lost what was acknowledged.
func TestDamageBeforeWhatWasSyncedIsRefused(t *testing.T) {
	smallFiles(t)
	for size, step := range map[int]int{40: 1, 700: 13} {
		dir := t.TempDir()
		l := open(t, dir)
		save(t, l, 2, 6, bytes.Repeat([]byte("x"), size))
		_, safe := logFile(t, dir)
		save(t, l, 7, 7, bytes.Repeat([]byte("x"), size))
		require.NoError(t, l.Close())
		raw, _ := logFile(t, dir)
		for _, at := range starts(t, raw) {
			if at >= safe {
				break
			}
			for bit := range 64 {
				damaged := bytes.Clone(raw)
				damaged[at+bit/8] ^= 1 << (bit % 8)
				refused(t, dir, damaged, fmt.Sprintf("bit %d of the length at %d", bit, at))
			}
			damaged := bytes.Clone(raw)
			clear(damaged[at : at+8])
			refused(t, dir, damaged, fmt.Sprintf("no length at %d", at))
		}
		for at := 0; at < safe; at += step {
			damaged := bytes.Clone(raw)
			damaged[at] ^= 0xff
			refused(t, dir, damaged, fmt.Sprintf("byte %d", at))
		}
	}
}

// TestNoRecordIsTakenForOneOfAnotherType: etcd's checksum is of a record's data alone, and one bit of the type makes a state
// an entry, and an entry without data a state.
func TestNoRecordIsTakenForOneOfAnotherType(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 3, []byte("x"))
	save(t, l, 4, 4, nil)
	save(t, l, 5, 5, []byte("x"))
	_, safe := logFile(t, dir)
	save(t, l, 6, 6, []byte("x"))
	require.NoError(t, l.Close())
	raw, _ := logFile(t, dir)
	for _, at := range starts(t, raw) {
		for bit := 0; bit < 8 && at < safe; bit++ {
			damaged := bytes.Clone(raw)
			damaged[at+9] ^= 1 << bit
			refused(t, dir, damaged, fmt.Sprintf("bit %d of the type at %d", bit, at))
		}
	}
}

// TestWhatALostFileHeldIsNoPartOfTheNext: etcd takes up a file that it had prepared, with what is in it.
func TestWhatALostFileHeldIsNoPartOfTheNext(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	require.NoError(t, open(t, dir).Close())
	for _, name := range []string{"0.tmp", "1.tmp"} {
		stale := bytes.Repeat([]byte{1}, int(wal.SegmentSizeBytes))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "wal", name), stale, 0o600))
	}
	l := open(t, dir)
	i := uint64(2)
	for ; len(logFiles(t, dir)) == 1; i++ {
		save(t, l, i, i, bytes.Repeat([]byte("x"), 1000))
	}
	require.NoError(t, l.Close())
	l = open(t, dir)
	assert.Equal(t, i-1, last(t, l))
	require.NoError(t, l.Close())
}

func TestAFolderMayBeNamedLikeAPattern(t *testing.T) {
	smallFiles(t)
	dir := filepath.Join(t.TempDir(), "orderer[1]")
	l := open(t, dir)
	save(t, l, 2, 6, []byte("x"))
	require.NoError(t, l.Close())
	raw, _ := logFile(t, dir)
	damaged := bytes.Clone(raw)
	clear(damaged[starts(t, raw)[4]:][:8])
	refused(t, dir, damaged, "no length")
}

// TestALostSectorIsDamageWhereASyncCameAfterIt: a sector that never got to the disk is of the write that a crash has cut short.
func TestALostSectorIsDamageWhereASyncCameAfterIt(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 8, bytes.Repeat([]byte("x"), 1500))
	require.NoError(t, l.Close())
	raw, end := logFile(t, dir)
	all := starts(t, raw)
	synced := all[len(all)-5] // entry and state, twice, and the end
	for at := 0; at < end; at += 512 {
		damaged := bytes.Clone(raw)
		clear(damaged[at : at+512])
		if at+512 <= synced {
			refused(t, dir, damaged, fmt.Sprintf("sector at %d", at))
			continue
		}
		writeLogFile(t, dir, damaged)
		l, err := Open(dir, voters)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			continue
		}
		assert.GreaterOrEqual(t, last(t, l), uint64(6))
		require.NoError(t, l.Close())
	}
}

// TestAWriteMayBeTornAnywhere: a disk writes the sectors of one sync in any order.
func TestAWriteMayBeTornAnywhere(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 4, []byte("x"))
	_, safe := logFile(t, dir)
	entries := []*raftpb.Entry{}
	for i := uint64(5); i < 12; i++ {
		entries = append(entries, entry(i, bytes.Repeat([]byte("x"), 700)))
	}
	require.NoError(t, l.Save(&raftpb.HardState{}, entries))
	require.NoError(t, l.Close())
	raw, end := logFile(t, dir)
	for at := safe / 512 * 512; at < end; at += 512 {
		torn := bytes.Clone(raw)
		clear(torn[max(at, safe) : at+512])
		writeLogFile(t, dir, torn)
		l := open(t, dir)
		found := last(t, l)
		assert.GreaterOrEqual(t, found, uint64(4))
		save(t, l, found+1, found+1, []byte("y"))
		require.NoError(t, l.Close())
	}
}

// TestATornEntryMayHoldFrames: a client chooses its transaction's bytes, and copies a log into it.
func TestATornEntryMayHoldFrames(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 9, bytes.Repeat([]byte("x"), 100))
	copied, safe := logFile(t, dir)
	for shift := range 8 {
		data := append(make([]byte, shift, 4096), copied[:safe]...)
		save(t, l, 10, 10, append(data, bytes.Repeat([]byte("x"), 1000)...))
		raw, end := logFile(t, dir)
		clear(raw[(end-600)/512*512:])
		require.NoError(t, l.Close())
		writeLogFile(t, dir, raw)
		l = open(t, dir)
		require.Equal(t, uint64(9), last(t, l), "shifted by %d", shift)
	}
	require.NoError(t, l.Close())
}

// TestDamageInAnEarlierFileIsRefused: it was synced as a whole before the next one was begun.
func TestDamageInAnEarlierFileIsRefused(t *testing.T) {
	smallFiles(t)
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 20, bytes.Repeat([]byte("x"), 8000))
	require.NoError(t, l.Close())
	first := logFiles(t, dir)[0]
	raw, err := os.ReadFile(first)
	require.NoError(t, err)
	require.Greater(t, len(logFiles(t, dir)), 1)
	damage := map[string][]byte{"cut": raw[:len(raw)-8]}
	for _, at := range starts(t, append(bytes.Clone(raw), make([]byte, 8)...))[:6] {
		damage[fmt.Sprint("longer at ", at)] = bytes.Clone(raw)
		damage[fmt.Sprint("longer at ", at)][at+5] = 1
		damage[fmt.Sprint("none at ", at)] = bytes.Clone(raw)
		clear(damage[fmt.Sprint("none at ", at)][at : at+8])
	}
	for why, damaged := range damage {
		require.NoError(t, os.WriteFile(first, damaged, 0o600))
		_, err := Open(dir, voters)
		require.ErrorIs(t, err, ErrDamaged, why)
	}
}

func TestDamageIsSaidWithItsPlaceAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 6, []byte("x"))
	require.NoError(t, l.Close())
	raw, _ := logFile(t, dir)
	at := starts(t, raw)[4]
	raw[at+6] = 1
	writeLogFile(t, dir, raw)
	_, err := Open(dir, voters)
	require.ErrorContains(t, err, filepath.Base(logFiles(t, dir)[0]))
	require.ErrorContains(t, err, fmt.Sprintf("offset %d", at))
	assert.ErrorContains(t, err, "remove this orderer from the channel's consenters")
}

// TestEachSaveIsOneSyncThatEndsWithTheState: a state that was written without one would look like the end of a sync.
func TestEachSaveIsOneSyncThatEndsWithTheState(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	save(t, l, 2, 5, []byte("x"))
	kinds := func() (kinds []int64) {
		raw, _ := logFile(t, dir)
		for f, ok := frameAt(raw); ok; f, ok = frameAt(raw) {
			kinds = append(kinds, f.kind)
			raw = raw[f.size:]
		}
		return kinds
	}
	before, synced := len(kinds()), syncs(t)
	state := &raftpb.HardState{Term: proto.Uint64(2), Vote: proto.Uint64(1), Commit: proto.Uint64(4)}
	require.NoError(t, l.Save(state, nil))
	state = &raftpb.HardState{Term: proto.Uint64(2), Vote: proto.Uint64(1), Commit: proto.Uint64(5)}
	require.NoError(t, l.Save(state, nil))
	require.NoError(t, l.Save(&raftpb.HardState{}, []*raftpb.Entry{entry(6, nil), entry(7, nil)}))
	assert.Equal(t, []int64{wal.EntryType, wal.EntryType, wal.StateType}, kinds()[before:])
	assert.Equal(t, synced+1, syncs(t))
	require.NoError(t, l.Close())
	l = open(t, dir)
	state, _, err := l.Memory.InitialState()
	require.NoError(t, err)
	assert.Equal(t, uint64(5), state.GetCommit())
	require.NoError(t, l.Close())
}
