package statedb

import (
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARecordKeepsAnEntry(t *testing.T) {
	require.NoError(t, quick.Check(func(key string, version Version, value []byte) bool {
		r := newRecord(key, version, value)
		return r.entry() == Entry{key, string(value), version} && r.key() == key
	}, nil))
	largest := Version{Block: 1<<64 - 1, Tx: 1<<64 - 1, Hash: "\xff"}
	for _, want := range []Entry{{}, {Key: "\x00"}, {Key: "k", Version: largest}, {Value: "v", Version: largest}} {
		assert.Equal(t, want, newRecord(want.Key, want.Version, []byte(want.Value)).entry())
	}
}

func TestWhatIsLookedForHasTheKeyOnly(t *testing.T) {
	require.NoError(t, quick.Check(func(key string) bool { return wanted(key).key() == key }, nil))
}
