package sequencer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestZerosAheadOverwriteNothing while a log grows faster than they are written, over several times what is written ahead.
func TestZerosAheadOverwriteNothing(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for round := range 2 {
		l, err := Open(dir, false)
		require.NoError(t, err)
		for i := range 20 {
			text := strings.Repeat(fmt.Sprint(round, " ", i, " "), 50_000)
			_, err := l.Append(blobs(text))
			require.NoError(t, err)
			want = append(want, text)
			require.GreaterOrEqual(t, l.ahead.to, l.end)
		}
		// One that is larger than all that was written ahead.
		text := strings.Repeat("x", 3*ahead)
		_, err = l.Append(blobs(text))
		require.NoError(t, err)
		want = append(want, text)
		require.Equal(t, want, all(t, l))
		require.NoError(t, l.Close())
	}
	l := open(t, dir)
	require.Equal(t, want, all(t, l))
	info, err := l.file.Stat()
	require.NoError(t, err)
	assert.Equal(t, l.end, info.Size(), "zeros from before are cut off")
	_, err = l.Append(blobs("last"))
	require.NoError(t, err)
	assert.Greater(t, l.ahead.to, l.end)
}

// TestAnAppendIsDurable by the way the file is open, but where the log is volatile.
func TestAnAppendIsDurable(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		l, err := Open(t.TempDir(), volatile)
		require.NoError(t, err)
		flags, err := unix.FcntlInt(l.sink.Fd(), unix.F_GETFL, 0)
		require.NoError(t, err)
		assert.Equal(t, !volatile, flags&unix.O_DSYNC != 0)
		_, err = l.Append(blobs("some"))
		require.NoError(t, err)
		info, err := l.file.Stat()
		require.NoError(t, err)
		assert.Equal(t, !volatile, info.Size() > l.end, "zeros are written for syncs alone")
		require.NoError(t, l.Close())
	}
}
