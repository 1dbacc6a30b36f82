package etcdraft

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestALogThatLacksWhatItAcknowledgedEndsTheNode with an error: its disk was restored, or has lost what it said was durable.
// The leader, which still leads, tells it that entries are committed which it has no more.
func TestALogThatLacksWhatItAcknowledgedEndsTheNode(t *testing.T) {
	const leader, follower = 1, 3
	g := newGroup(t, 3, false, false)
	require.NoError(t, g.nodes[leader].raft.Campaign())
	g.ready(leader)
	g.deliver()
	dir, before := filepath.Join(g.dir, "3"), filepath.Join(t.TempDir(), "before")
	require.NoError(t, os.CopyFS(before, os.DirFS(dir)))
	g.propose(leader, []string{"a"})
	g.ready(leader)
	g.deliver()

	require.NoError(t, g.nodes[follower].log.Close())
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(before, dir))
	g.machines[follower-1].open = nil
	g.open(follower)
	g.nodes[leader].tick()
	g.ready(leader)
	n, heartbeats := g.nodes[follower], 0
	n.host = acquainted{g.machines[follower-1]}
	for _, m := range g.mail {
		if m.GetTo() == follower && m.GetType() == raftpb.MsgHeartbeat {
			raw, err := proto.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, n.Step(leader, raw))
			heartbeats++
		}
	}
	require.Equal(t, 1, heartbeats)
	err := n.Run(t.Context())
	require.ErrorContains(t, err, "raft of channel ch: ")
	require.ErrorContains(t, err, "Was the raft log corrupted, truncated, or lost?")
	require.ErrorContains(t, err, "remove this orderer from the channel's consenters")
}
