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
		log      Log
		at, back Applied
	}{
		{RaftLog, Applied{Index: 7, Txs: 3}, Applied{Index: 7, Txs: 3}},
		{RaftLog, Applied{Index: 1}, Applied{Index: 1}},
		{KafkaLog, Applied{Index: 1, Txs: 1}, Applied{Index: 2}}, // offset 0 is in the chain
		{KafkaLog, Applied{Index: 7, Txs: 1}, Applied{Index: 8}},
		{KafkaLog, Applied{Index: 7}, Applied{Index: 7}}, // a time to cut, or a block cut before the record
	} {
		raw, err := c.log.Marshal(c.at, channelconfig.Membership{})
		require.NoError(t, err)
		back, _, err := c.log.Parse(raw, channelconfig.Membership{})
		require.NoError(t, err)
		assert.Equal(t, c.back, back, "%t %+v", c.log.External, c.at)
	}
}

// TestConsentersIDsComeBackFromABlock, and a block that names none leaves them as they were.
func TestConsentersIDsComeBackFromABlock(t *testing.T) {
	members := channelconfig.Membership{IDs: []uint64{1, 5, 3}, Next: 6}
	raw, err := RaftLog.Marshal(Applied{Index: 7}, members)
	require.NoError(t, err)
	_, back, err := RaftLog.Parse(raw, channelconfig.Membership{})
	require.NoError(t, err)
	assert.Equal(t, members, back)
	raw, err = RaftLog.Marshal(Applied{Index: 8}, channelconfig.Membership{})
	require.NoError(t, err)
	_, back, err = RaftLog.Parse(raw, members)
	require.NoError(t, err)
	assert.Equal(t, members, back)
}
