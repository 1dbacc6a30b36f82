package mapped

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shortened is the mapping of a file whose second and last page is gone.
func shortened(t *testing.T) []byte {
	t.Helper()
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 2*page), 0o644))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	data, err := syscall.Mmap(int(file.Fd()), 0, 2*page, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(data)) })
	require.NoError(t, os.Truncate(path, int64(page)))
	return data
}

func TestAFaultIsAnErrorWithItsOffset(t *testing.T) {
	data, page := shortened(t), os.Getpagesize()
	sum := byte(1)
	require.NoError(t, Guard(data, func() { sum += data[page-1] }))
	assert.EqualValues(t, 1, sum, "read was called")
	err := Guard(data, func() { sum += data[page+7] })
	require.ErrorIs(t, err, syscall.EIO)
	require.EqualError(t, err, fmt.Sprintf("read at offset %d: input/output error", page+7))
}

// TestOtherPanicsArePassedOn: Guard makes an error of a fault inside the mapping alone. A panic of the program, and a
// fault at an address outside, go on as panics.
func TestOtherPanicsArePassedOn(t *testing.T) {
	data, page := shortened(t), os.Getpagesize()
	assert.PanicsWithValue(t, "a mistake", func() { _ = Guard(data, func() { panic("a mistake") }) })
	var none *int
	assert.Panics(t, func() { _ = Guard(data, func() { *none = 1 }) })
	sum := byte(0)
	assert.Panics(t, func() { _ = Guard(data[:page], func() { sum += data[page] }) })
	require.Error(t, Guard(data, func() {
		require.NoError(t, Guard(data, func() {}))
		sum += data[page]
	}), "the guard outlasts one within")
}
