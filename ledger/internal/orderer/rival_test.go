package orderer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
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
