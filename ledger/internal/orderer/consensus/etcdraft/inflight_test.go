package etcdraft

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

// TestWhatIsOnTheWayToAFollowerIsBounded in bytes: a slow one has a majority go on without it, at any number of the largest
// transactions. It gets the rest as it takes what it was sent.
func TestWhatIsOnTheWayToAFollowerIsBounded(t *testing.T) {
	const slow, size = 3, 2 << 20
	g := newGroup(t, 3, false, false)
	require.NoError(t, g.nodes[1].raft.Campaign())
	g.ready(1)
	g.deliver()
	var late []*raftpb.Message
	onTheWay := 0
	for range 2 * inflightBytes / size {
		g.propose(1, []string{strings.Repeat("x", size)})
		g.ready(1)
		for len(g.mail) > 0 {
			m := g.mail[0]
			g.mail = g.mail[1:]
			if m.GetTo() == slow {
				late = append(late, m)
				for _, e := range m.GetEntries() {
					onTheWay += len(e.GetData())
				}
				continue
			}
			g.nodes[m.GetTo()].take(m)
			g.ready(m.GetTo())
		}
	}
	has := func(id int) int { return len(g.machines[id-1].open) } // no test tells them in full
	require.Equal(t, 2*inflightBytes/size, has(1), "the others go on")
	assert.Greater(t, onTheWay, inflightBytes-size)
	assert.LessOrEqual(t, onTheWay, inflightBytes+size)

	g.mail = late
	g.deliver()
	assert.Equal(t, has(1), has(slow), "the slow one catches up")
}
