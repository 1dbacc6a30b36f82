package txids

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/mapped/mappedtest"
)

// TestAStartMeetsABadSector under the fences and the filter: the run is left aside and made again, as any damaged one.
func TestAStartMeetsABadSector(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	first, second := taken(1, 0, 5, 300), taken(2, 5, 9, 3000)
	require.NoError(t, s.Add(5, hashOf(5), first))
	require.NoError(t, s.Add(9, hashOf(9), second))
	bad := s.runs[1]
	require.NoError(t, s.Close())
	mend := mappedtest.Spoil(t, bad.path, pageSize*(1+bad.pages()))

	var skipped []error
	s = open(t, dir, anything, func(path string, why error) {
		assert.Equal(t, bad.path, path)
		skipped = append(skipped, why)
	})
	require.Len(t, skipped, 1)
	require.ErrorIs(t, skipped[0], ErrDamaged)
	require.ErrorContains(t, skipped[0], "read at offset ")
	require.NoFileExists(t, bad.path)
	require.EqualValues(t, 5, s.Blocks())
	check(t, s, first)
	mend()
	require.NoError(t, s.Add(9, hashOf(9), second))
	check(t, s, append(first, second...))
}

// TestACheckMeetsABadSector in the fences or in the filter: an id is found, or it is an error of which the next start
// makes the run again.
func TestACheckMeetsABadSector(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	ids := taken(1, 0, 5, 50_000)
	require.NoError(t, s.Add(5, hashOf(5), ids))
	page := int64(os.Getpagesize())
	fences := pageSize * (1 + s.runs[0].pages()) / page * page
	whole, err := os.ReadFile(s.runs[0].path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for name, at := range map[string]int64{"fences": fences, "filter": fences + 3*page} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/"+span{end: 5}.name(), whole, 0o644))
			s := open(t, dir, anything, noneSkipped(t))
			// What may not be read is told in the same way as what cannot be.
			require.NoError(t, syscall.Mprotect(s.runs[0].mapped[at:at+page], syscall.PROT_NONE))
			failed := 0
			for _, id := range ids[:1000] {
				got, ok, err := s.Find(id.Key)
				if err != nil {
					require.ErrorIs(t, err, ErrDamaged)
					require.ErrorContains(t, err, "read at offset ")
					failed++
					continue
				}
				require.True(t, ok)
				require.Equal(t, id, got)
			}
			require.Positive(t, failed)
			require.NoFileExists(t, s.runs[0].path)
			require.NoError(t, s.Close())
			assert.Zero(t, open(t, dir, anything, noneSkipped(t)).Blocks(), "it is read again from the blocks")
		})
	}
}

// TestARunIsRemovedForItsOwnFaultOnly: one that the system cannot open, or whose chain it cannot read, is there at the next
// start, and so are those after it. To make them again takes as long as to read their blocks.
func TestARunIsRemovedForItsOwnFaultOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	ids := taken(1, 0, 5, 300)
	require.NoError(t, s.Add(5, hashOf(5), ids))
	require.NoError(t, s.Add(9, hashOf(9), taken(2, 5, 9, 300)))
	require.NoError(t, s.Add(12, hashOf(12), taken(3, 9, 12, 300)))
	require.NoError(t, s.Close())

	had := limitDescriptors(t, freeDescriptor(t)+1) // enough for the folder, and after that for the first run
	_, err := Open(dir, nil, anything, noneSkipped(t))
	limitDescriptors(t, had)
	require.ErrorIs(t, err, syscall.EMFILE)
	assert.Zero(t, openIn(t, dir), "the first run is closed")

	_, err = Open(dir, nil, func(blocks uint64, _ []byte) error {
		if blocks == 5 {
			return syscall.EIO
		}
		return nil
	}, noneSkipped(t))
	require.ErrorIs(t, err, syscall.EIO)
	assert.Zero(t, openIn(t, dir))

	s = open(t, dir, anything, noneSkipped(t))
	require.EqualValues(t, 12, s.Blocks())
	check(t, s, ids)
}

// freeDescriptor is the one that the next file gets.
func freeDescriptor(t *testing.T) uint64 {
	t.Helper()
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	return uint64(file.Fd())
}

// openIn is how many of the process's open files are in a folder.
func openIn(t *testing.T, dir string) (n int) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	all, err := os.ReadDir(descriptors)
	require.NoError(t, err)
	for _, d := range all {
		if to, err := os.Readlink(filepath.Join(descriptors, d.Name())); err == nil && filepath.Dir(to) == dir {
			n++
		}
	}
	return n
}

// limitDescriptors lets the process have those below a number, and says what the number was.
func limitDescriptors(t *testing.T, below uint64) (was uint64) {
	t.Helper()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	was, limit.Cur = limit.Cur, below
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	return was
}

// TestAPageOfRecordsThatCannotBeRead is damage: the next start makes its run again. A file that is closed is none.
func TestAPageOfRecordsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		path  func(t *testing.T, s *Store) string // of what is read in the run's place
		close bool
		want  error
		kept  bool
	}{
		// No memory is there where the records are in a run: the kernel tells that as it tells a bad sector.
		"a bad sector":     {path: func(*testing.T, *Store) string { return "/proc/self/mem" }, want: ErrDamaged},
		"a shortened file": {path: shortened, want: ErrDamaged},
		"a closed file":    {path: func(_ *testing.T, s *Store) string { return s.runs[1].path }, close: true, want: os.ErrClosed, kept: true},
	} {
		for does, do := range map[string]func(*Store, ID) error{
			"check": func(s *Store, id ID) error { _, _, err := s.Find(id.Key); return err },
			"merge": func(s *Store, _ ID) error { return s.Compact() },
		} {
			t.Run(name+", "+does, func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir, anything, noneSkipped(t))
				for n := range uint64(fan) {
					require.NoError(t, s.Add(n+1, hashOf(n+1), taken(n, n, n+1, 200)))
				}
				bad := s.runs[1]
				require.NoError(t, bad.file.Close())
				file, err := os.Open(c.path(t, s))
				require.NoError(t, err)
				if bad.file = file; c.close {
					require.NoError(t, file.Close())
				}
				err = do(s, taken(1, 1, 2, 200)[0])
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, bad.path)
				_ = s.Close()
				s = open(t, dir, anything, noneSkipped(t))
				if c.kept {
					assert.EqualValues(t, fan, s.Blocks())
				} else {
					assert.ErrorContains(t, err, "the next start makes it again")
					assert.EqualValues(t, 1, s.Blocks(), "the rest is read again from the blocks")
				}
			})
		}
	}
}

// shortened is a file that ends where the records of a run begin.
func shortened(t *testing.T, s *Store) string {
	t.Helper()
	raw, err := os.ReadFile(s.runs[1].path)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "shortened")
	require.NoError(t, os.WriteFile(path, raw[:pageSize], 0o644))
	return path
}
