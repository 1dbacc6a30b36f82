package blockfile

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failingFile fails on demand.
type failingFile struct {
	File
	write, sync error
}

func (f *failingFile) Write(p []byte) (int, error) {
	if f.write != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, f.write
	}
	return f.File.Write(p)
}

func (f *failingFile) Sync() error {
	if f.sync != nil {
		return f.sync
	}
	return f.File.Sync()
}

func TestDiskErrorsAreSticky(t *testing.T) {
	noSpace, io5 := errors.New("no space left on device"), errors.New("input/output error")
	for name, set := range map[string]func(*failingFile){
		"write": func(f *failingFile) { f.write = noSpace },
		"fsync": func(f *failingFile) { f.sync = io5 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var file *failingFile
			s, err := Open(dir, Options{OpenFile: func(path string) (File, error) {
				real, err := openAppend(path)
				file = &failingFile{File: real}
				return file, err
			}})
			require.NoError(t, err)
			require.NoError(t, s.AppendBlock(testBlock(0, 1)))
			require.NoError(t, s.Sync())
			require.NoError(t, s.AppendBlock(testBlock(1, 1)))
			set(file)
			first := s.Sync()
			require.Error(t, first)
			assert.Contains(t, first.Error(), dir)
			file.write, file.sync = nil, nil // the disk "recovers"; the store must not
			assert.ErrorContains(t, s.Sync(), "refused after an earlier failure")
			assert.ErrorContains(t, s.AppendBlock(testBlock(2, 1)), "refused after an earlier failure")
			assert.ErrorContains(t, s.AppendTx(2, 0, nil, 0), "refused after an earlier failure")
			_ = s.Close()

			s = open(t, dir, Options{})
			assert.GreaterOrEqual(t, s.Height(), uint64(1), "what was synced is there")
		})
	}
}

// TestWhatIsFoundIsDurable before anybody is told of it: a killed process may have left frames that it had not synced.
func TestWhatIsFoundIsDurable(t *testing.T) {
	small := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 20, small)
	var synced []string
	small.OpenFile = func(path string) (File, error) {
		real, err := openAppend(path)
		return syncedFile{real, func() { synced = append(synced, path) }}, err
	}
	s := open(t, dir, small)
	assert.EqualValues(t, len(blocks), s.Height())
	assert.Equal(t, []string{s.last().path}, synced, "all others were synced before it was begun")
	require.NoError(t, s.Close())

	full := errors.New("no space left on device")
	_, err := Open(dir, Options{OpenFile: func(path string) (File, error) {
		real, err := openAppend(path)
		return &failingFile{File: real, sync: full}, err
	}})
	require.ErrorIs(t, err, full)
	open(t, dir, Options{ReadOnly: true})
}

// syncedFile tells when it is synced.
type syncedFile struct {
	File
	tell func()
}

func (f syncedFile) Sync() error {
	f.tell()
	return f.File.Sync()
}
