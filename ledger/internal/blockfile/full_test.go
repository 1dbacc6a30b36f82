package blockfile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fullDisk has every write to it fail as on a full disk, by the kernel.
func fullDisk(t *testing.T, dir string) File {
	t.Helper()
	path := filepath.Join(dir, "full")
	require.NoError(t, os.Symlink("/dev/full", path))
	f, err := openAppend(path)
	require.NoError(t, err)
	return f
}

// TestErrorsNameTheDirectoryOnce: os's errors have the path too, and the store adds which of its files it was.
func TestErrorsNameTheDirectoryOnce(t *testing.T) {
	for name, test := range map[string]struct {
		before int // blocks that are there when the disk fails
		fail   func(t *testing.T, dir string, f *failingFile)
		want   error
	}{
		"a new segment": {0, func(t *testing.T, dir string, f *failingFile) { f.File = fullDisk(t, dir) }, syscall.ENOSPC},
		"a write":       {1, func(t *testing.T, dir string, f *failingFile) { f.File = fullDisk(t, dir) }, syscall.ENOSPC},
		"a sync":        {1, func(_ *testing.T, _ string, f *failingFile) { f.sync = syscall.EIO }, syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var file *failingFile
			s, err := Open(dir, Options{OpenFile: func(path string) (File, error) {
				real, err := openAppend(path)
				file = &failingFile{File: real}
				if test.before == 0 {
					test.fail(t, dir, file)
				}
				return file, err
			}})
			require.NoError(t, err)
			for n := range test.before {
				require.NoError(t, s.AppendBlock(testBlock(uint64(n), 1)))
				require.NoError(t, s.Sync())
				test.fail(t, dir, file)
			}
			err = s.AppendBlock(testBlock(uint64(test.before), 1))
			if test.before > 0 { // it was put into memory
				require.NoError(t, err)
				err = s.Sync()
			}
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, 1, strings.Count(err.Error(), dir), err.Error())
			assert.Contains(t, err.Error(), segmentName(0))
			require.NoError(t, s.Close())
		})
	}
}

// TestAStoreThatCannotBeginASegmentIsRead to its end, however many others are read as well.
func TestAStoreThatCannotBeginASegmentIsRead(t *testing.T) {
	small := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 80, small)
	full := small
	full.OpenFile = func(path string) (File, error) {
		real, err := openAppend(path)
		if info, statErr := os.Stat(path); statErr == nil && info.Size() == 0 {
			return &failingFile{File: real, write: syscall.ENOSPC}, err
		}
		return real, err
	}
	s := open(t, dir, full)
	for {
		b := testBlock(uint64(len(blocks)), 2)
		if err := s.AppendBlock(b); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			break
		}
		blocks = append(blocks, b)
	}
	same(t, s, blocks)
	same(t, s, blocks)
}

// toldOnce is a file whose disk fails, which the kernel tells once.
type toldOnce struct {
	File
	syncs            atomic.Int32
	entered, release chan struct{}
}

func (f *toldOnce) Sync() error {
	if f.syncs.Add(1) > 1 {
		return nil
	}
	close(f.entered)
	<-f.release
	return syscall.EIO
}

var waitsForALock = regexp.MustCompile(`^goroutine \d+ \[sync\.(RW)?Mutex\.R?Lock`)

// locked reports whether a goroutine of this process waits for a lock of a store's.
func locked() bool {
	all := make([]byte, 1<<20)
	stacks := strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n")
	return slices.ContainsFunc(stacks, func(stack string) bool {
		return waitsForALock.MatchString(stack) && strings.Contains(stack, "blockfile.(*Store).")
	})
}

// TestOfTwoThatSyncAtOnceBothHearOfAFailure, also where one of them writes on.
func TestOfTwoThatSyncAtOnceBothHearOfAFailure(t *testing.T) {
	for name, other := range map[string]func(*Store) error{
		"another sync":  (*Store).Sync,
		"a new segment": func(s *Store) error { return s.AppendBlock(testBlock(1, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir(), Options{SegmentBytes: 1})
			require.NoError(t, err)
			require.NoError(t, s.AppendBlock(testBlock(0, 1)))
			file := &toldOnce{File: s.last().file, entered: make(chan struct{}), release: make(chan struct{})}
			s.last().file = file
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- s.Sync() }()
			<-file.entered
			go func() { second <- other(s) }()
			// It waits for the first. One that does not shows it.
			require.Eventually(t, func() bool { return len(second) > 0 || locked() }, time.Minute, time.Millisecond)
			close(file.release)
			require.ErrorIs(t, <-first, syscall.EIO)
			require.ErrorIs(t, <-second, syscall.EIO)
			require.NoError(t, s.Close())
		})
	}
}

// TestAPageThatTheDiskDoesNotGiveIsAnError of its file, of the last as of another: the kernel sends a signal for it. So it does
// where a file has become shorter.
func TestAPageThatTheDiskDoesNotGiveIsAnError(t *testing.T) {
	page := os.Getpagesize()
	opts := Options{SegmentBytes: 4 * int64(page)}
	dir, _ := ledger(t, 500, opts)
	paths, err := listSegments(dir)
	require.NoError(t, err)
	require.Greater(t, len(paths), 2)
	for _, path := range []string{paths[len(paths)-1], paths[0]} {
		if err := os.Remove(indexPath(path)); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		opts.OpenFile = func(opened string) (File, error) {
			if opened == path {
				require.NoError(t, os.Truncate(path, int64(page)))
			}
			return openAppend(opened)
		}
		_, err = Open(dir, opts)
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorContains(t, err, path+": read at offset ")
		var at int
		_, err = fmt.Sscanf(strings.TrimPrefix(err.Error(), "ledger file "+path), ": read at offset %d", &at)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, at, page)
	}
}
