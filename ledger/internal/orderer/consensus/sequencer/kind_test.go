package sequencer

import (
	"crypto/sha256"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// TestTheLargestTransactionIsOrderedAndRead, and so is whatever else the sequencer takes.
func TestTheLargestTransactionIsOrderedAndRead(t *testing.T) {
	largest := make([]byte, channelconfig.MostBytes(channelconfig.Sequencer))
	assert.LessOrEqual(t, proto.Size(&streampb.LogEntry{Txs: [][]byte{largest}}), sequencer.MostBlob)
	message := &sequencerpb.Blobs{First: math.MaxUint64, Blobs: [][]byte{make([]byte, sequencer.MostBlob)}, Chain: make([]byte, sha256.Size)}
	assert.LessOrEqual(t, proto.Size(message), sequencer.MostBlob+messageSlack)
}
