package chain

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
)

// TestAPlaceInTheLogComesBackFromABlock: of Kafka, whose records hold one transaction or none, as the same
// place told from its other side.
func TestAPlaceInTheLogComesBackFromABlock(t *testing.T) {
	for _, c := range []struct {
		kind     string
		at, back Applied
	}{
		{channelconfig.Raft, Applied{Index: 7, Txs: 3}, Applied{Index: 7, Txs: 3}},
		{channelconfig.Solo, Applied{Index: 1}, Applied{Index: 1}},
		{channelconfig.Kafka, Applied{Index: 1, Txs: 1}, Applied{Index: 2}}, // offset 0 is in the chain
		{channelconfig.Kafka, Applied{Index: 7, Txs: 1}, Applied{Index: 8}},
		{channelconfig.Kafka, Applied{Index: 7}, Applied{Index: 7}}, // a time to cut, or a block cut before the record
	} {
		raw, err := c.at.marshal(c.kind)
		require.NoError(t, err)
		back, err := parseApplied(c.kind, raw)
		require.NoError(t, err)
		assert.Equal(t, c.back, back, "%s %+v", c.kind, c.at)
	}
}
