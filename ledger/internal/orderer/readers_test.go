package orderer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// TestReadersAreBounded as Fabric's peers bound them, those of blocks together with those of transactions. Consenters, which
// catch up, are none of them.
func TestReadersAreBounded(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount = "block", 1 })
	node, _ := c.startNode(0)
	c.start(1)
	c.orderAt(0, "a")
	reading := c.follow(t.Context(), 0, ch, &streampb.Position{Block: 1})
	_, err := reading.Recv()
	require.NoError(t, err)
	var leave func()
	for range serving.MostReaders - 1 {
		leave, err = node.readers.Enter("", "")
		require.NoError(t, err)
	}

	_, err = c.blocks(0, ch, 0, 1)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "too many requests for /orderer.AtomicBroadcast, exceeding concurrency limit (2500)")
	_, err = c.follow(t.Context(), 0, ch, &streampb.Position{Block: 1}).Recv()
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "too many requests for /qioi.stream.Stream, exceeding concurrency limit (2500)")
	_, err = c.deliver(0, c.message(ch, "no request"))
	require.ErrorContains(t, err, "BAD_REQUEST", "who has asked for nothing takes no place")

	behind := c.open(2)
	defer func() { require.NoError(t, behind.close()) }()
	require.NoError(t, behind.channels[ch].catchUpFrom(t.Context(), c.node(0).Address, 2))
	assert.EqualValues(t, 2, behind.channels[ch].Height())

	seek, err := proto.Marshal(&ordererpb.SeekInfo{Start: seekNumber(0), Stop: seekNumber(math.MaxUint64)})
	require.NoError(t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, ch, c.client, nil, seek)
	require.NoError(t, err)
	leave()
	stream, err := ordererpb.NewAtomicBroadcastClient(c.conn(0)).Deliver(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(env))
	first, err := stream.Recv()
	require.NoError(t, err)
	assert.NotNil(t, first.GetBlock())
}
