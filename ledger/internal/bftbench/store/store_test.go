package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBothKindsKeepWhatIsWritten(t *testing.T) {
	for _, kind := range []string{Memory, SQLite} {
		t.Run(kind, func(t *testing.T) {
			table, err := Open(kind, t.TempDir(), 10, 4)
			require.NoError(t, err)
			require.NoError(t, table.Begin())
			require.NoError(t, table.Write(3, []byte("abcd")))
			require.NoError(t, table.Write(10, []byte("none")), "a key beyond the table is left out")
			require.NoError(t, table.Commit())
			require.NoError(t, table.Begin())
			require.NoError(t, table.Write(3, []byte("efgh")))
			require.NoError(t, table.Commit())
			read := table.(interface{ read(uint64) []byte }).read
			assert.Equal(t, "efgh", string(read(3)))
			assert.Equal(t, make([]byte, 4), read(4))
			assert.NoError(t, table.Close())
		})
	}
	nowhere, err := Open(None, "", 10, 4)
	require.NoError(t, err)
	require.NoError(t, nowhere.Write(3, []byte("abcd")))
	_, err = Open("disk", t.TempDir(), 1, 1)
	require.ErrorContains(t, err, "sqlite")
	_, err = Open(SQLite, "/proc/none", 1, 1)
	require.Error(t, err)
}
