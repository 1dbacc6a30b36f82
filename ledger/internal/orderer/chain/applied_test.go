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
		raw, err := c.at.marshal(c.kind, channelconfig.Membership{})
		require.NoError(t, err)
		back, _, err := parseMetadata(c.kind, raw, channelconfig.Membership{})
		require.NoError(t, err)
		assert.Equal(t, c.back, back, "%s %+v", c.kind, c.at)
	}
}

// TestConsentersIDsComeBackFromABlock, and a block that names none leaves them as they were.
func TestConsentersIDsComeBackFromABlock(t *testing.T) {
	members := channelconfig.Membership{IDs: []uint64{1, 5, 3}, Next: 6}
	raw, err := Applied{Index: 7}.marshal(channelconfig.Raft, members)
	require.NoError(t, err)
	_, back, err := parseMetadata(channelconfig.Raft, raw, channelconfig.Membership{})
	require.NoError(t, err)
	assert.Equal(t, members, back)
	raw, err = Applied{Index: 8}.marshal(channelconfig.Raft, channelconfig.Membership{})
	require.NoError(t, err)
	_, back, err = parseMetadata(channelconfig.Raft, raw, members)
	require.NoError(t, err)
	assert.Equal(t, members, back)
}
