package etcdraft

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/tracker"
)

// TestThatASnapshotLeftIsHeard, however many messages are lost meanwhile: Raft sends that follower nothing until it hears so.
func TestThatASnapshotLeftIsHeard(t *testing.T) {
	const behind = 3
	g := newGroup(t, 3, false, false)
	leader := g.nodes[1]
	require.NoError(t, leader.raft.Campaign())
	g.ready(1)
	g.deliver()
	g.lost[behind] = true
	for height := range uint64(2) { // the log reaches back to the snapshot before the last one
		g.propose(1, []string{"a"})
		g.ready(1)
		g.deliver()
		leader.proposeCut()
		g.ready(1)
		g.deliver()
		require.NoError(t, leader.log.Compact(leader.applied, height+2, nil))
	}

	clear(g.lost)
	for range 1000 {
		leader.Unreachable(2)
		leader.Unreachable(behind)
	}
	leader.tick()
	g.ready(1)
	for leader.raft.Status().Progress[behind].State != tracker.StateSnapshot {
		require.NotEmpty(t, g.mail)
		m := g.mail[0]
		g.mail = g.mail[1:]
		g.nodes[m.GetTo()].take(m)
		g.ready(m.GetTo())
	}
	leader.stepReports()
	require.Equal(t, tracker.StateProbe, leader.raft.Status().Progress[behind].State)
}
