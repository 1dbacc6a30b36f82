package orderer

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// TestASlowSourceHasARival, and holds nobody up for its whole turn: here that is longer than the test has.
func TestASlowSourceHasARival(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	c := clusterWith(t, 3)
	h := &hanging{}
	c.impersonate(1, h, grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Second})) // bytes, and no block
	node := c.open(2)
	defer func() { require.NoError(t, node.close()) }()
	behind, slow, other := node.channels[ch], c.node(1).Address, c.node(0).Address
	behind.turns = turns{height: 1, doubled: map[string]int{slow: 10, other: 11}, slower: map[string]int{slow: 10}}
	require.Equal(t, []string{slow, other}, behind.turns.sort([]string{other, slow}))
	caught := make(chan error, 1)
	go func() { caught <- behind.CatchUp(t.Context(), 4) }()
	select {
	case err := <-caught:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the slow one is waited for")
	}
	assert.EqualValues(t, 4, behind.Height())
	assert.EqualValues(t, 1, h.asked.Load())
	assert.Equal(t, 10, behind.turns.doubled[slow], "it was overtaken, and is not blamed")
}

// TestTwoSourcesBringEachBlockOnce: what one has brought is skipped where it comes from the other, too.
func TestTwoSourcesBringEachBlockOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const blocks = 40
	c := clusterWith(t, blocks)
	c.impersonate(1, &trickling{c: c})
	node := c.open(2)
	defer func() { require.NoError(t, node.close()) }()
	behind := node.channels[ch]
	behind.turns = turns{height: 1, doubled: map[string]int{c.node(0).Address: 11, c.node(1).Address: 10}}
	require.NoError(t, behind.CatchUp(t.Context(), blocks+1))
	assert.EqualValues(t, blocks+1, behind.Height())
	assert.LessOrEqual(t, behind.turns.doubled[c.node(1).Address], 10)
}

// TestASourceSendsTheBlocksThatFollow, in their order, or is left: one that sends what a rival's turn is about to make the next
// one would bring this orderer farther than anybody has asked.
func TestASourceSendsTheBlocksThatFollow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := clusterWith(t, 2)
	node := c.open(2)
	defer func() { require.NoError(t, node.close()) }()
	behind := node.channels[ch]
	blocks, err := c.blocks(0, ch, 0, 2)
	require.NoError(t, err)
	_, err = behind.importNext(&sends{block: blocks[1]}, 0)
	require.ErrorContains(t, err, "block 1 in place of block 0")
	assert.EqualValues(t, 1, behind.Height())
	appended, err := behind.importNext(&sends{block: blocks[1]}, 1)
	require.NoError(t, err)
	assert.True(t, appended)
}

type sends struct {
	ordererpb.AtomicBroadcast_DeliverClient
	block *commonpb.Block
}

func (s *sends) Recv() (*ordererpb.DeliverResponse, error) {
	return &ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: s.block}}, nil
}

// TestOneThatWasAddedAgainIsOneSource, though the channel knows it by two ids.
func TestOneThatWasAddedAgainIsOneSource(t *testing.T) {
	c := clusterWith(t, 1)
	node := c.open(2)
	defer func() { require.NoError(t, node.close()) }()
	behind := node.channels[ch]
	known := behind.group.Load()
	again := *known
	again.members = maps.Clone(known.members)
	again.members[77] = known.members[1]
	behind.group.Store(&again)
	defer behind.group.Store(known)
	assert.ElementsMatch(t, []string{c.node(0).Address, c.node(1).Address}, behind.sources())
}
