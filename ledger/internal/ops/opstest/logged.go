// Package opstest is for tests of what is logged and of what metrics show.
package opstest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Logged is what this process writes to stderr meanwhile.
func Logged(t testing.TB, do func()) string {
	t.Helper()
	return Watched(t, func(func() string) { do() })
}

// Watched is the same. What goes on meanwhile may look, from any goroutine, at what has been written so far.
func Watched(t testing.TB, do func(soFar func() string)) string {
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
	soFar := func() string {
		raw, err := os.ReadFile(file.Name())
		assert.NoError(t, err)
		return string(raw)
	}
	do(soFar)
	return soFar()
}
