package votelog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/framed"
)

func open(t *testing.T, dir string) (*Log, []string) {
	l, records, err := Open(dir, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var texts []string
	for _, r := range records {
		texts = append(texts, string(r))
	}
	return l, texts
}

func texts(words ...string) (records [][]byte) {
	for _, w := range words {
		records = append(records, []byte(w))
	}
	return records
}

// TestVolatileRecordsOutliveTheProcess, though not a power cut.
func TestVolatileRecordsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	l.Forget()
	require.NoError(t, l.Append(texts("a")))
	require.NoError(t, l.Append(texts("b")))
	_, got := open(t, dir)
	require.Equal(t, []string{"a", "b"}, got)
}

func TestRecordsOutliveAKill(t *testing.T) {
	dir := t.TempDir()
	l, got := open(t, dir)
	require.Empty(t, got)
	require.NoError(t, l.Append(texts("a", "", "bc")))
	require.NoError(t, l.Append(nil))
	require.NoError(t, l.Append(texts("d")))
	l, got = open(t, dir)
	require.Equal(t, []string{"a", "", "bc", "d"}, got)
	require.NoError(t, l.Replace(texts("x", "y")))
	require.NoError(t, l.Append(texts("z")))
	l, got = open(t, dir)
	require.Equal(t, []string{"x", "y", "z"}, got)
	require.NoError(t, l.Replace(nil))
	_, got = open(t, dir)
	require.Empty(t, got)
}

// TestAFailedReplaceLeavesAllAsItWas: on a full disk the new file cannot be written, and the votes in the old one count.
func TestAFailedReplaceLeavesAllAsItWas(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	require.NoError(t, l.Append(texts("a", "b")))
	inTheWay := filepath.Join(dir, durable.Making)
	require.NoError(t, os.Mkdir(inTheWay, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(inTheWay, "file"), nil, 0o644))
	require.Error(t, l.Replace(texts("c")))
	require.NoError(t, os.RemoveAll(inTheWay))
	_, got := open(t, dir)
	require.Equal(t, []string{"a", "b"}, got)
}

// TestNoFrameIsTooLargeToBeRead: as many entries as a view change accepts at once may be gigabytes. A replica that finds some
// of its votes for them alone would be free to vote otherwise.
func TestNoFrameIsTooLargeToBeRead(t *testing.T) {
	dir := t.TempDir()
	var file *disk
	l, _, err := Open(dir, Options{Wrap: func(f File) File {
		file = &disk{File: f}
		return file
	}})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Append(texts("first")))
	var ends []int64
	file.synced = func() { ends = append(ends, l.Size()) } // of the frame before
	records := [][]byte{make([]byte, ahead/2), make([]byte, ahead/2), {1}, make([]byte, 2*ahead), {}, {2, 3}}
	require.NoError(t, l.Append(records))
	require.Len(t, ends, 4)
	assert.Equal(t, []string{"write", "sync", "write", "sync", "write", "sync", "write", "sync"}, file.done[3:])
	_, got := open(t, dir)
	require.Len(t, got, 1+len(records))
	for i, record := range records {
		require.Equal(t, string(record), got[1+i])
	}
	whole, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	for _, end := range ends {
		at := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(at, name), append(whole[:end:end], make([]byte, 100)...), 0o600))
		l, got := open(t, at)
		require.Equal(t, []string{"first"}, got)
		require.NoError(t, l.Append(texts("second")))
		_, got = open(t, at)
		require.Equal(t, []string{"first", "second"}, got)
	}
}

// TestTornWrites: wherever a crash has cut the last write off, what was durable before it is there, and the log goes on.
func TestTornWrites(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	require.NoError(t, l.Append(texts("first", "second")))
	before := l.Size()
	require.NoError(t, l.Append(texts("third")))
	whole := l.Size()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	for cut := before; cut < whole; cut++ {
		torn := append([]byte{}, raw[:whole]...)
		clear(torn[cut:])
		at := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(at, name), append(torn, make([]byte, 100)...), 0o600))
		l, got := open(t, at)
		require.Equal(t, []string{"first", "second"}, got, cut)
		require.NoError(t, l.Append(texts("again")))
		_, got = open(t, at)
		require.Equal(t, []string{"first", "second", "again"}, got, cut)
	}
}

// TestDamageIsNotTakenForACrash: forgotten votes could be cast again.
func TestDamageIsNotTakenForACrash(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	require.NoError(t, l.Append(texts("first")))
	require.NoError(t, l.Append(texts("second")))
	require.NoError(t, l.Append(texts("third")))
	raw, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	for at := range framed.HeadBytes + frameHead + len("first") {
		raw[at] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
		_, _, err = Open(dir, Options{})
		require.ErrorIs(t, err, ErrDamaged, at)
		raw[at] ^= 1
	}
}

// TestDamageMayTakeSeveralFrames: a sector that the disk has lost holds more than one. Those behind are intact.
func TestDamageMayTakeSeveralFrames(t *testing.T) {
	const sector, perVote = 4096, 300
	for what, c := range map[string]struct{ votes, begin, end int }{
		"two frames of four": {4, framed.HeadBytes + perVote, framed.HeadBytes + 3*perVote},
		"the first two":      {4, framed.HeadBytes, framed.HeadBytes + 2*perVote},
		"all but the last":   {30, framed.HeadBytes, framed.HeadBytes + 29*perVote},
		"a sector":           {60, sector, 2 * sector},
	} {
		for how, spoil := range map[string]byte{"zeroes": 0, "garbage": 0xa5} {
			t.Run(what+", "+how, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, name)
				l, _ := open(t, dir)
				vote := make([]byte, perVote-frameHead-2) // its length takes two bytes
				for range c.votes {
					require.NoError(t, l.Append([][]byte{vote}))
				}
				require.EqualValues(t, framed.HeadBytes+c.votes*perVote, l.Size())
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				for at := c.begin; at < c.end; at++ {
					raw[at] = spoil
				}
				require.NoError(t, os.WriteFile(path, raw, 0o600))
				_, _, err = Open(dir, Options{})
				require.ErrorIs(t, err, ErrDamaged)
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, raw, after, "what is left is kept")
			})
		}
	}
}

// TestATornWriteIsNoDamageWhateverItHolds: a client may have put into a transaction what would be the next frame of a log.
func TestATornWriteIsNoDamageWhateverItHolds(t *testing.T) {
	_, known := framed.Begin(kind)
	for _, key := range []framed.Key{{}, known} {
		dir := t.TempDir()
		l, _ := open(t, dir)
		require.NoError(t, l.Append(texts("first")))
		before := l.Size()
		require.NoError(t, l.Append([][]byte{appendFrame(nil, key, 2, texts("third"))}))
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		raw[before] ^= 1 // its first sector did not get to the disk
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
		_, got := open(t, dir)
		require.Equal(t, []string{"first"}, got)
	}
}

// TestATornWriteMayLookLikeFrames: a client chooses its bytes. Every twelfth of these begins a frame of 4 MiB, as far as
// its head tells. To sum up each would be 4 TB, in which this test would not end, nor would an orderer's start.
func TestATornWriteMayLookLikeFrames(t *testing.T) {
	const unreadable = 1
	l := &Log{} // its key is always the same: by chance one would fit a checksum
	torn := bytes.Repeat([]byte{0, 0, 0x40, 0, 1, 1, 1, 1, unreadable + 1, 0, 0, 0}, 16<<20/12)
	_, found := shape.Behind(torn, l.key, unreadable)
	assert.False(t, found)
	// A frame in their midst is found nevertheless.
	whole := appendFrame(bytes.Clone(torn[:1<<20]), l.key, unreadable+3|goesOn, texts("fourth"))
	number, found := shape.Behind(append(whole, torn[:5<<20]...), l.key, unreadable)
	assert.True(t, found)
	assert.EqualValues(t, unreadable+3, number)
}

// TestTheShortestFrameIsFound, right behind the shortest that is not readable, and at the file's end.
func TestTheShortestFrameIsFound(t *testing.T) {
	l := &Log{}
	torn := make([]byte, shortest)
	tail := appendFrame(bytes.Clone(torn), l.key, 6, texts(""))
	require.Len(t, tail, 2*shortest)
	number, found := shape.Behind(tail, l.key, 5)
	assert.True(t, found)
	assert.EqualValues(t, 6, number)
	for _, impossible := range []uint32{4, 5, 7} { // there is no room for two between
		_, found = shape.Behind(appendFrame(bytes.Clone(torn), l.key, impossible, texts("")), l.key, 5)
		assert.False(t, found, impossible)
	}
}

// disk tells what is done to a file, and fails on demand.
type disk struct {
	File
	done   []string
	sync   error
	synced func()
}

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	d.done = append(d.done, "write")
	return d.File.WriteAt(p, off)
}

func (d *disk) Sync() error {
	d.done = append(d.done, "sync")
	if d.synced != nil {
		d.synced()
	}
	return errors.Join(d.sync, d.File.Sync())
}

// TestRecordsAreSyncedOnceWritten, with one sync for all, and an error of the disk is told.
func TestRecordsAreSyncedOnceWritten(t *testing.T) {
	var file *disk
	l, _, err := Open(t.TempDir(), Options{Wrap: func(f File) File {
		file = &disk{File: f}
		return file
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	assert.Equal(t, []string{"sync"}, file.done) // what a process that was killed may have left unsynced is said again
	file.done = nil
	for range 2 { // the second time in the file that has taken the first one's place
		require.NoError(t, l.Append(texts("a", "b")))
		require.NoError(t, l.Append(texts("c")))
		assert.Equal(t, []string{"write", "sync", "write", "sync"}, file.done)
		require.NoError(t, l.Replace(texts("x")))
	}
	file.sync = errors.New("input/output error")
	require.ErrorIs(t, l.Append(texts("d")), file.sync)
	l.Forget()
	require.NoError(t, l.Append(texts("e")))
}

// TestAFailedSyncNamesTheFile: the orderer ends with that line, and its reader asks which disk it was.
func TestAFailedSyncNamesTheFile(t *testing.T) {
	file, err := os.Open("/dev/null") // it cannot be synced
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	err = osFile{file}.Sync()
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "/dev/null")
}
