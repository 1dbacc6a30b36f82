package follow

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// TestTurnsGoByTheConfiguration that is in force: who has been removed is asked no more, who has been added is.
func TestTurnsGoByTheConfiguration(t *testing.T) {
	consenters := map[string]bool{"a": true, "b": true, "c": true}
	turns := &turn{busy: map[string]bool{"a": true}, suits: func(address string) bool { return consenters[address] }}
	take := func(addresses ...string) string {
		address, ok := turns.take(addresses)
		assert.Equal(t, address != "", ok)
		return address
	}
	require.Equal(t, "b", take("a", "b", "c"), "a is followed")
	require.Equal(t, "c", take("a", "b", "c"))
	require.Empty(t, take("a", "b", "c"), "each is asked once at a time")
	turns.giveBack("b")
	turns.giveBack("c")
	delete(consenters, "b")
	consenters["d"] = true
	require.Equal(t, "c", take("a", "b", "c"), "b is no consenter")
	require.Empty(t, take("a", "b", "c"))
	require.Equal(t, "d", take("a", "c", "d"))
}

// TestRunningHashesHaveOneLength, since what an orderer says is kept for what is still to come.
func TestRunningHashesHaveOneLength(t *testing.T) {
	hash := make([]byte, sha256.Size)
	word, err := wordOf(&streampb.Word{Block: 7, Tx: 2, Hash: hash})
	require.NoError(t, err)
	assert.Equal(t, chain.Word{Position: chain.Position{Block: 7, Tx: 2}, Hash: string(hash)}, word)
	for _, other := range [][]byte{nil, hash[1:], append(hash, 0)} {
		_, err = wordOf(&streampb.Word{Hash: other})
		require.ErrorContains(t, err, "not 32")
	}
}
