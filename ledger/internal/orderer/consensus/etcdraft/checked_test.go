package etcdraft

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

// TestANewLeaderWaitsForAConfigurationOfItsLog: what it takes comes after that one in the order.
func TestANewLeaderWaitsForAConfigurationOfItsLog(t *testing.T) {
	const old, leader = 1, 2
	g := newGroup(t, 3, false, false)
	deliver := func(types ...raftpb.MessageType) {
		for len(g.mail) > 0 {
			m := g.mail[0]
			if g.mail = g.mail[1:]; slices.Contains(types, m.GetType()) {
				g.nodes[m.GetTo()].take(m)
				g.ready(m.GetTo())
			}
		}
	}
	require.NoError(t, g.nodes[old].raft.Campaign())
	g.ready(old)
	g.deliver()
	g.propose(old, []string{"=3"})
	g.ready(old)
	deliver(raftpb.MsgApp) // nobody answers, so that it is not agreed on
	for _, id := range []uint64{leader, 3} {
		require.NoError(t, g.nodes[id].raft.ForgetLeader())
	}
	require.NoError(t, g.nodes[leader].raft.Campaign())
	g.ready(leader)
	deliver(raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgVote, raftpb.MsgVoteResp)
	require.True(t, g.nodes[leader].leads())
	require.Empty(t, g.machines[leader-1].blocks)

	assert.Nil(t, g.nodes[leader].accepting(), "the configuration is not in force")
	for range 2 { // the first of its messages were lost
		g.nodes[leader].tick()
		g.ready(leader)
		g.deliver()
	}
	require.Equal(t, []string{"[=3]"}, g.machines[leader-1].blocks)
	assert.NotNil(t, g.nodes[leader].accepting())
}
