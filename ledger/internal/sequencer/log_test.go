package sequencer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/framed"
	"github.com/qioi/qioi/ledger/internal/mapped/mappedtest"
)

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(dir, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func blobs(texts ...string) (out [][]byte) {
	for _, text := range texts {
		out = append(out, []byte(text))
	}
	return out
}

// all are the blobs of a log.
func all(t *testing.T, l *Log) (out []string) {
	t.Helper()
	last, want := l.Last()
	for number := uint64(1); number <= last; {
		some, chain, _, err := l.Get(number, -1) // one at a time
		require.NoError(t, err)
		require.Len(t, some, 1)
		out = append(out, string(some[0]))
		if number++; number > last {
			require.Equal(t, want, chain)
		}
	}
	return out
}

// TestALogComesBack, with and without a sync of its own: the process may end at any time.
func TestALogComesBack(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		dir := t.TempDir()
		var want []string
		for round := range 3 {
			l, err := Open(dir, volatile)
			require.NoError(t, err)
			require.Equal(t, want, all(t, l))
			for i := range 5 {
				group := []string{fmt.Sprint(round, " ", i), "", string(make([]byte, 3000*i))}
				first, err := l.Append(blobs(group...))
				require.NoError(t, err)
				require.EqualValues(t, len(want)+1, first)
				want = append(want, group...)
			}
			require.Equal(t, want, all(t, l))
			require.NoError(t, l.Close()) // it writes nothing
		}
	}
}

// TestTheLastAppendIsReadFromMemory by those who have read all before, and is what the file has.
func TestTheLastAppendIsReadFromMemory(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for _, group := range [][]string{{"a", "b"}, {"c"}, {"d", "", "e"}} {
		first, err := l.Append(blobs(group...))
		require.NoError(t, err)
		copied := t.TempDir()
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		file := open(t, copied)
		for _, most := range []int{-1, 0, 1, 2, 100, 1000} {
			want, wantChain, _, err := file.Get(first, most)
			require.NoError(t, err)
			got, chain, _, err := l.Get(first, most)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, wantChain, chain)
		}
	}
	require.NoError(t, l.file.Close())
	got, chain, _, err := l.Get(4, 1000)
	require.NoError(t, err)
	assert.Equal(t, blobs("d", "", "e"), got)
	_, want := l.Last()
	assert.Equal(t, want, chain)
	for _, number := range []uint64{3, 5} {
		_, _, _, err = l.Get(number, 1000)
		require.ErrorIs(t, err, os.ErrClosed, "it is in the file alone")
	}
}

// TestEmptyBlobsAreNotReadWithoutEnd: each takes room in a message.
func TestEmptyBlobsAreNotReadWithoutEnd(t *testing.T) {
	l := open(t, t.TempDir())
	for range 2 {
		_, err := l.Append(make([][]byte, 1000))
		require.NoError(t, err)
	}
	for _, number := range []uint64{1, 1001} {
		some, _, _, err := l.Get(number, 10*blobHead)
		require.NoError(t, err)
		assert.Len(t, some, 10)
	}
}

// TestTheChain is what anybody can compute of the blobs alone.
func TestTheChain(t *testing.T) {
	l := open(t, t.TempDir())
	_, err := l.Append(blobs("a", "b"))
	require.NoError(t, err)
	a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	after := sha256.Sum256(append(make([]byte, sha256.Size), a[:]...))
	want := sha256.Sum256(append(after[:], b[:]...))
	_, chain := l.Last()
	assert.EqualValues(t, want, chain)
}

func TestPastTheLastIsRefused(t *testing.T) {
	l := open(t, t.TempDir())
	_, err := l.Append(blobs("a", "b"))
	require.NoError(t, err)
	for _, number := range []uint64{0, 4, 1 << 40} {
		_, _, _, err := l.Get(number, 1)
		require.ErrorIs(t, err, ErrPast, number)
	}
	none, _, more, err := l.Get(3, 1)
	require.NoError(t, err)
	assert.Empty(t, none)
	select {
	case <-more:
		t.Fatal("there is no more")
	default:
	}
	_, err = l.Append(blobs("c"))
	require.NoError(t, err)
	select {
	case <-more:
		t.Fatal("it was not told")
	default:
	}
	l.Tell()
	<-more
}

// TestATornTailIsCutOff, wherever the last write ended; what was answered before it stays.
func TestATornTailIsCutOff(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	_, err := l.Append(blobs("a", "b"))
	require.NoError(t, err)
	whole := l.end
	_, err = l.Append(blobs("c", "d"))
	require.NoError(t, err)
	torn := l.end
	require.NoError(t, l.Close())
	raw, err := os.ReadFile(filepath.Join(dir, logName))
	require.NoError(t, err)
	for end := whole; end < torn; end += 5 {
		for name, tail := range map[string][]byte{"short": nil, "zeros": make([]byte, 5000)} {
			again := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(again, logName), append(bytes.Clone(raw[:end]), tail...), 0o600))
			l := open(t, again)
			require.Equal(t, []string{"a", "b"}, all(t, l), "%s at %d", name, end)
			first, err := l.Append(blobs("e"))
			require.NoError(t, err)
			require.EqualValues(t, 3, first)
			require.NoError(t, l.Close())
			require.Equal(t, []string{"a", "b", "e"}, all(t, open(t, again)))
		}
	}
}

// TestATornWriteIsNoDamageWhateverItHolds: a client may have put into a blob what would be the next write of a log.
func TestATornWriteIsNoDamageWhateverItHolds(t *testing.T) {
	another := t.TempDir()
	l := open(t, another)
	for _, text := range []string{"x", "y", "z"} {
		_, err := l.Append(blobs(text))
		require.NoError(t, err)
	}
	written := l.end
	raw, err := os.ReadFile(filepath.Join(another, logName))
	require.NoError(t, err)
	third := raw[written-int64(len("z")+1+sha256.Size+frameHead) : written]

	dir := t.TempDir()
	l = open(t, dir)
	_, err = l.Append(blobs("a"))
	require.NoError(t, err)
	whole := l.end
	_, err = l.Append([][]byte{third})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	path := filepath.Join(dir, logName)
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	raw[whole] ^= 1 // its first sector did not get to the disk
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	require.Equal(t, []string{"a"}, all(t, open(t, dir)))
}

// TestDamageIsTold: of what a later write shows to have been whole nothing may be cut off.
func TestDamageIsTold(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	_, err := l.Append(blobs("a", "b"))
	require.NoError(t, err)
	first := l.end
	_, err = l.Append(blobs("c"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	path := filepath.Join(dir, logName)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := int64(0); at < first; at += 3 {
		changed := bytes.Clone(raw)
		changed[at] ^= 1
		require.NoError(t, os.WriteFile(path, changed, 0o600))
		_, err := Open(dir, false)
		require.ErrorIs(t, err, ErrDamaged, "byte %d", at)
	}
}

// TestDamageMayTakeSeveralWrites: a sector that the disk has lost holds many, and what comes behind it was answered.
func TestDamageMayTakeSeveralWrites(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	var ends []int64
	for _, text := range []string{"", "b", "c", ""} {
		ends = append(ends, l.end)
		_, err := l.Append(blobs(text))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	path := filepath.Join(dir, logName)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, lost := range map[string][2]int64{
		"two in the middle": {ends[1], ends[3]}, "the first two": {ends[0], ends[2]}, "all but the last": {ends[0], ends[3]},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Clone(raw)
			clear(changed[lost[0]:lost[1]])
			require.NoError(t, os.WriteFile(path, changed, 0o600))
			_, err := Open(dir, false)
			require.ErrorIs(t, err, ErrDamaged)
			stays, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, changed, stays)
		})
	}
}

// TestABadSectorIsTold with the place in the file, of which nothing is cut off.
func TestABadSectorIsTold(t *testing.T) {
	dir, page := t.TempDir(), int64(os.Getpagesize())
	l := open(t, dir)
	for range 4 {
		_, err := l.Append([][]byte{make([]byte, page)})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	path := filepath.Join(dir, logName)
	before, err := os.Stat(path)
	require.NoError(t, err)
	mend := mappedtest.Spoil(t, path, 2*page)
	_, err = Open(dir, false)
	require.ErrorIs(t, err, syscall.EIO)
	var at int64
	_, scanned := fmt.Sscanf(err.Error(), path+": read at offset %d: input/output error", &at)
	require.NoError(t, scanned, err)
	assert.GreaterOrEqual(t, at, 2*page)
	after, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, before.Size(), after.Size())
	mend()
	l, err = Open(dir, false)
	require.NoError(t, err, "the file is not locked any longer")
	require.NoError(t, l.Close())
}

// TestABrokenChainIsTold, though each write is whole: a write of another log stands in for one of this.
func TestABrokenChainIsTold(t *testing.T) {
	var ends []int64
	write := func(texts ...string) []byte {
		dir := t.TempDir()
		l := open(t, dir)
		for _, text := range texts {
			_, err := l.Append(blobs(text))
			require.NoError(t, err)
			ends = append(ends, l.end)
		}
		require.NoError(t, l.Close())
		raw, err := os.ReadFile(filepath.Join(dir, logName))
		require.NoError(t, err)
		return raw[:ends[len(ends)-1]]
	}
	one, other := write("a", "b"), write("x", "y")
	key, err := framed.Read(one, logKind)
	require.NoError(t, err)
	stranger := other[ends[2]:]
	binary.LittleEndian.PutUint32(stranger[4:], key.Checksum(stranger[8:]))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, logName), append(bytes.Clone(one[:ends[0]]), stranger...), 0o600))
	_, err = Open(dir, false)
	require.ErrorIs(t, err, ErrDamaged)
	assert.ErrorContains(t, err, "chain of hashes breaks at number 2")
}

func TestALogHasOneProcess(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(dir, false)
	require.ErrorIs(t, err, ErrInUse)
}
