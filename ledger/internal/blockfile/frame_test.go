package blockfile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
)

// TestAFrameTakesTheLargestTransactionOfAnyChannel, and a block around it: a node would end at one that it does not take, and
// at each start again.
func TestAFrameTakesTheLargestTransactionOfAnyChannel(t *testing.T) {
	for _, kind := range []string{
		channelconfig.Solo, channelconfig.Raft, channelconfig.Kafka, channelconfig.BFT, channelconfig.Sequencer, channelconfig.Zyzzyva,
	} {
		assert.LessOrEqual(t, channelconfig.MostBytes(kind)+4<<20, maxFrame, kind)
	}
}

// TestATornTransactionMayLookLikeFrames: a client chooses its bytes. Every fourth of these begins a frame of 4 MiB, as far
// as its header tells. To sum up each would be 13 TB, in which this test would not end, nor would a node's start.
func TestATornTransactionMayLookLikeFrames(t *testing.T) {
	const nonce, offset = 7, 4096
	torn := bytes.Repeat([]byte{0x01, 0x01, 0x40, 0x00}, 16<<20/4)
	assert.Empty(t, findFrames(torn, nonce, offset))
	// A frame in their midst is found nevertheless.
	whole, start := appendFrameHeader(bytes.Clone(torn[:1<<20]))
	whole = append(whole, "payload"...)
	finishFrame(whole, start, nonce, offset+int64(start), kindTx, 0)
	assert.Len(t, findFrames(append(whole, torn[:5<<20]...), nonce, offset), 1)
}
