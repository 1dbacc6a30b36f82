package orderer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

const ch = "mychannel"

func solo(o *setup.Options) { o.Consenter, o.Orderers = "solo", 1 }

func TestOneClientThroughEveryOrderer(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) {
		o.Channels = []string{ch, "second"}
		o.VirtualBlockTxs, o.VirtualBlockInterval = 4, time.Hour
		o.RaftTick = 200 * time.Millisecond // an election would have a transaction sent again, and ordered twice
	})
	for i := range 3 {
		c.start(i)
	}
	c.order(c.message(ch, "first"))
	want := []string{"first"}
	for i := range 12 { // two of three orderers have to forward
		text := fmt.Sprintf("tx%d", i)
		c.orderAt(i%3, text)
		want = append(want, text)
	}
	c.order(c.message("second", "elsewhere"))
	for i := range 3 {
		assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
		assert.Equal(t, []string{"elsewhere"}, c.texts(i, "second", &streampb.Position{Block: 1}, 1))
	}
	// The blocks that followers of different orderers see have equal headers and valid signatures.
	_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(t, err)
	var first []*commonpb.Block
	for i := range 3 {
		blocks, err := c.blocks(i, ch, 0, 3)
		require.NoError(t, err)
		require.Len(t, blocks, 4)
		for n, b := range blocks[1:] {
			require.NoError(t, bundle.VerifySeal(b.Header, b.Metadata))
			assert.Equal(t, protoutil.BlockHeaderHash(blocks[n].Header), b.Header.PreviousHash)
			assert.Len(t, b.Data.Data, 4)
		}
		if first == nil {
			first = blocks
		}
		for n := range blocks {
			assert.True(t, proto.Equal(first[n].Header, blocks[n].Header), "block %d", n)
		}
	}
}

// TestTheLeaderIsNamed: whoever asks another orderer learns the leader's address, as peers know it.
func TestTheLeaderIsNamed(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {})
	for i := range 3 {
		c.start(i)
	}
	c.order(c.message(ch, "first"))
	var named map[string]int
	require.Eventually(t, func() bool { // another election may come in between
		named = map[string]int{}
		for i := range 3 {
			env, err := c.envelope(ch, fmt.Sprint(i))
			if err != nil {
				return false
			}
			r, err := c.broadcast(context.Background(), i, env)
			if err != nil || r.Status != commonpb.Status_SUCCESS {
				return false
			}
			if r.Info == "" {
				r.Info = c.node(i).Address // it leads itself
			}
			named[r.Info]++
		}
		return len(named) == 1
	}, patience, 10*time.Millisecond, "all name the same one")
	_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(t, err)
	for address := range named {
		assert.Contains(t, bundle.Orderer.Addresses, address)
	}
}

func TestFollowFromTheMiddleOfABlock(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.VirtualBlockTxs = 3; o.VirtualBlockInterval = time.Hour })
	c.start(0)
	for i := range 7 {
		c.order(c.message(ch, fmt.Sprint(i)))
	}
	assert.Equal(t, []string{"2", "3", "4", "5", "6"}, c.texts(0, ch, &streampb.Position{Block: 1, Tx: 2}, 5))
	assert.Equal(t, []string{"6"}, c.texts(0, ch, &streampb.Position{Block: 3}, 1))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := c.follow(ctx, 0, ch, &streampb.Position{Block: 1, Tx: 9}).Recv()
	assert.Equal(t, codes.NotFound, status.Code(err), err)
	// Block 0 holds one transaction, the configuration.
	_, err = c.follow(ctx, 0, ch, &streampb.Position{Tx: 9}).Recv()
	assert.Equal(t, codes.NotFound, status.Code(err), err)
	// A follower that is ahead of this orderer waits for it.
	ahead := c.follow(ctx, 0, ch, &streampb.Position{Block: 3, Tx: 2})
	c.order(c.message(ch, "7"))
	c.order(c.message(ch, "8"))
	batch, err := ahead.Recv()
	require.NoError(t, err)
	msg, err := protoutil.ParseEnvelope(batch.Items[0].GetTx())
	require.NoError(t, err)
	assert.Equal(t, "8", string(msg.Data))
}

func TestAQuietBlockIsSealedByTime(t *testing.T) {
	for _, mode := range []string{"stream", "block"} {
		c := newCluster(t, func(o *setup.Options) {
			solo(o)
			o.Mode, o.VirtualBlockInterval, o.BatchTimeout = mode, 30*time.Millisecond, 30*time.Millisecond
		})
		c.start(0)
		c.order(c.message(ch, "a"))
		blocks, err := c.blocks(0, ch, 1, 1) // waits for it
		require.NoError(t, err)
		assert.Len(t, blocks[0].Data.Data, 1, mode)
	}
}

// TestHeadersComeWithConfigurations, as in Fabric: whoever reads headers learns of no other signers otherwise.
func TestHeadersComeWithConfigurations(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.Mode, o.MaxMessageCount = "block", 1 })
	c.start(0)
	c.order(c.message(ch, "a"))
	seek, err := proto.Marshal(&ordererpb.SeekInfo{Start: seekNumber(0), Stop: seekNumber(1), ContentType: ordererpb.SeekInfo_HEADER_WITH_SIG})
	require.NoError(t, err)
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, ch, c.client, nil, seek)
	require.NoError(t, err)
	blocks, err := c.deliver(0, env)
	require.NoError(t, err)
	require.Len(t, blocks, 2)
	assert.Equal(t, protoutil.DataHash(blocks[0].GetData().GetData()), blocks[0].Header.DataHash)
	assert.Nil(t, blocks[1].Data)
	assert.NotNil(t, blocks[1].Metadata)
}

func TestBlockModeShowsWholeBlocks(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { solo(o); o.Mode, o.MaxMessageCount, o.BatchTimeout = "block", 2, time.Hour })
	c.start(0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := c.follow(ctx, 0, ch, &streampb.Position{Block: 1})
	for _, text := range []string{"a", "b", "c"} {
		c.order(c.message(ch, text))
	}
	batch, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, batch.Items, 3, "two transactions and the seal")
	assert.Equal(t, uint64(1), batch.Items[2].GetSeal().GetHeader().GetNumber())
	c.order(c.message(ch, "d"))
	batch, err = stream.Recv()
	require.NoError(t, err)
	assert.Len(t, batch.Items, 3)
}
