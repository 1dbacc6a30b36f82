package durable

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	for _, sizes := range [][]int{{}, {1}, {10, 64 << 10, 3}, {chunk, 7, 2 * chunk}} {
		var want []byte
		require.NoError(t, Replace(dir, "file", nil, func(w *Writer) error {
			for i, size := range sizes {
				part := bytes.Repeat([]byte{byte(i + 1)}, size)
				want = append(want, part...)
				if _, err := w.Write(part); err != nil {
					return err
				}
			}
			return nil
		}))
		got, err := os.ReadFile(filepath.Join(dir, "file"))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%v", sizes)
		assert.NoFileExists(t, filepath.Join(dir, Making))
	}
}

func TestAFailureLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o644))
	broken := errors.New("broken")
	require.ErrorIs(t, Replace(dir, "file", nil, func(*Writer) error { return broken }), broken)
	assert.NoFileExists(t, filepath.Join(dir, Making), "the disk may be full")
	require.NoError(t, os.Mkdir(filepath.Join(dir, Making), 0o755))
	require.Error(t, Replace(dir, "file", nil, func(*Writer) error { return nil }))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "before", string(got))
}

func TestAFileThatIsWrittenAgainKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, WriteFile(file, []byte("first")))
	require.NoError(t, os.Chmod(file, 0o640))
	require.NoError(t, WriteFile(file, []byte("second")))
	found, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), found.Mode())
	require.NoError(t, os.Mkdir(file+".making", 0o755))
	require.Error(t, WriteFile(file, []byte("third")))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "second", string(got))
}

func TestMakeDir(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a/b/c", "a/b/c", "a/b/d/", "./e", filepath.Join(t.TempDir(), "f", "g"), "/", "."} {
		require.NoError(t, MakeDir(dir), dir)
		assert.DirExists(t, dir)
	}
	require.NoError(t, os.WriteFile("file", nil, 0o644))
	require.Error(t, MakeDir("file"))
	require.Error(t, MakeDir("file/below"))
}
