package sequencer

import (
	"crypto/sha256"
	"math"
	"slices"
	"strings"
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
	entry := proto.Size(&streampb.LogEntry{Txs: [][]byte{largest}})
	assert.LessOrEqual(t, entry, sequencer.MostBlob)
	small := slices.Repeat([][]byte{make([]byte, 4)}, requestBytes/4-1) // the ends of blocks are as short
	request := &sequencerpb.OrderRequest{Channel: strings.Repeat("c", 249), Blobs: append(small, make([]byte, entry))}
	assert.LessOrEqual(t, proto.Size(request), sequencer.MostMessage)
	message := &sequencerpb.Blobs{First: math.MaxUint64, Blobs: [][]byte{make([]byte, sequencer.MostBlob)}, Chain: make([]byte, sha256.Size)}
	assert.LessOrEqual(t, proto.Size(message), sequencer.MostMessage)
}
