package etcdraft

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
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

// TestOnlyALogThatLacksSomethingIsToBeDeleted: the core ends for mistakes of this program, too.
func TestOnlyALogThatLacksSomethingIsToBeDeleted(t *testing.T) {
	storage := raft.NewMemoryStorage()
	require.NoError(t, storage.SetHardState(&raftpb.HardState{Term: proto.Uint64(2), Commit: proto.Uint64(9)}))
	for name, c := range map[string]struct {
		fault   func(raftLogger)
		deletes bool
	}{
		"a state beyond the log": {deletes: true, fault: func(l raftLogger) {
			_, _ = raft.NewRawNode(&raft.Config{ID: 1, ElectionTick: 10, HeartbeatTick: 1, Storage: storage, MaxInflightMsgs: 1, Logger: l})
		}},
		"another": {fault: func(l raftLogger) { l.Panicf("entry %d conflict with committed entry [committed(%d)]", 3, 4) }},
	} {
		t.Run(name, func(t *testing.T) {
			ended := func() (err error) {
				defer endByFault("ch", &err)
				c.fault(raftLogger{"ch"})
				return nil
			}
			err := ended()
			require.ErrorContains(t, err, "raft of channel ch: ")
			assert.Equal(t, c.deletes, strings.Contains(err.Error(), raftlog.Remedy), err)
		})
	}
}
