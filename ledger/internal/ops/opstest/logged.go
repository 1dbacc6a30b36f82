// Package opstest is for tests of what is logged.
package opstest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Logged is what this process writes to stderr meanwhile.
func Logged(t testing.TB, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	before, err := syscall.Dup(syscall.Stderr)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, syscall.Dup3(before, syscall.Stderr, 0))
		require.NoError(t, syscall.Close(before))
	}()
	require.NoError(t, syscall.Dup3(int(file.Fd()), syscall.Stderr, 0))
	do()
	raw, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return string(raw)
}
