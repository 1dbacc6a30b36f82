// Package mappedtest makes disks that do not give a part of a file that is mapped.
package mappedtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Spoil puts a folder on a disk of its own, which does not give the pages of one of its files behind the first kept bytes:
// the kernel sends the signal of a bad sector to who reads them where the file is mapped. That disk is full, and these
// pages are a hole, for which it then has no room. mend makes room: the pages are zeroes.
func Spoil(t *testing.T, path string, kept int64) (mend func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts a disk, which needs root")
	}
	dir, before := filepath.Dir(path), filepath.Join(t.TempDir(), "before")
	require.NoError(t, os.CopyFS(before, os.DirFS(dir)))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no disk can be mounted here: %s", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	whole, err := os.Stat(filepath.Join(before, filepath.Base(path)))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(before, filepath.Base(path)), kept))
	require.NoError(t, os.CopyFS(dir, os.DirFS(before)))
	require.NoError(t, os.Truncate(path, whole.Size()))
	filler, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, os.Getpagesize()))
	}
	require.ErrorIs(t, errors.Join(err, filler.Close()), syscall.ENOSPC)
	return func() { require.NoError(t, os.Remove(filler.Name())) }
}
