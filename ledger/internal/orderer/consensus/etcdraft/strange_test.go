package etcdraft

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
)

// TestAMessageThatNoMemberSendsIsRefused: to the Raft core it would be a mistake of this program, which ends.
func TestAMessageThatNoMemberSendsIsRefused(t *testing.T) {
	type message struct {
		message *raftpb.Message
		taken   bool
	}
	snapshotOf := func(voters *raftpb.ConfState) message {
		s := raftlog.NewSnapshot(9, 1, nil, 2)
		s.Metadata.ConfState = voters
		return message{message: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Term: proto.Uint64(1), Snapshot: s}}
	}
	for name, c := range map[string]message{
		"a proposal":        {message: &raftpb.Message{Type: raftpb.MsgProp.Enum()}},
		"a read":            {message: &raftpb.Message{Type: raftpb.MsgReadIndex.Enum(), Term: proto.Uint64(1)}},
		"a transfer":        {message: &raftpb.Message{Type: raftpb.MsgTransferLeader.Enum(), Term: proto.Uint64(1)}},
		"one of its own":    {message: &raftpb.Message{Type: raftpb.MsgHup.Enum(), Term: proto.Uint64(1)}},
		"of no known type":  {message: &raftpb.Message{Type: raftpb.MessageType(99).Enum(), Term: proto.Uint64(1)}},
		"without a term":    {message: &raftpb.Message{Type: raftpb.MsgVote.Enum()}},
		"an answer to none": {message: &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Term: proto.Uint64(1), Context: []byte("read")}},
		"no snapshot":       {message: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Term: proto.Uint64(1)}},
		"a snapshot of what": {message: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Term: proto.Uint64(1), Snapshot: &raftpb.Snapshot{
			Data: []byte("much"), Metadata: raftlog.NewSnapshot(9, 1, []uint64{1, 2, 3}, 2).Metadata,
		}}},
		"a snapshot of learners":             snapshotOf(&raftpb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{1}}),
		"a snapshot of a change":             snapshotOf(&raftpb.ConfState{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{1, 2}}),
		"a snapshot of coming learners":      snapshotOf(&raftpb.ConfState{Voters: []uint64{1, 2, 3}, LearnersNext: []uint64{3}}),
		"a snapshot of a change that leaves": snapshotOf(&raftpb.ConfState{Voters: []uint64{1, 2, 3}, AutoLeave: proto.Bool(true)}),
		"a snapshot of nobody's vote":        snapshotOf(&raftpb.ConfState{Voters: []uint64{1, 0, 3}}),
		"a snapshot of a vote twice":         snapshotOf(&raftpb.ConfState{Voters: []uint64{1, 2, 1}}),
		"a snapshot": {taken: true, message: &raftpb.Message{
			Type: raftpb.MsgSnap.Enum(), Term: proto.Uint64(1), Snapshot: raftlog.NewSnapshot(9, 1, []uint64{1, 2, 3}, 2),
		}},
		"a vote": {taken: true, message: &raftpb.Message{Type: raftpb.MsgVote.Enum(), Term: proto.Uint64(2), Context: []byte("CampaignTransfer")}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newGroup(t, 3, false, false).nodes[1]
			n.host = acquainted{n.host.(*machine)}
			c.message.From, c.message.To = proto.Uint64(2), proto.Uint64(1)
			raw, err := proto.Marshal(c.message)
			require.NoError(t, err)
			err = n.Step(2, raw)
			if c.taken {
				require.NoError(t, err)
				assert.Equal(t, 1, n.messages.Len())
				return
			}
			assert.Equal(t, codes.InvalidArgument, status.Code(err))
			assert.Zero(t, n.messages.Len())
		})
	}
}

// TestNoMessageEndsANode whatever it says, as a leader and as a follower. One that says what is committed beyond its log is
// for TestALogThatLacksWhatItAcknowledgedEndsTheNode.
func TestNoMessageEndsANode(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := newGroup(t, 3, false, false)
		n := g.nodes[1]
		n.host = acquainted{g.machines[0]}
		if seed%2 == 0 {
			require.NoError(t, n.raft.Campaign())
			g.ready(1)
			g.deliver()
		}
		for range 300 {
			m := anyMessage(random)
			raw, err := proto.Marshal(m)
			require.NoError(t, err)
			_ = n.Step(m.GetFrom(), raw)
			require.NotPanics(t, func() {
				for n.messages.Len() > 0 {
					n.take(<-n.messages.C())
				}
				require.NoError(t, n.handleReady(context.Background()), "%s", m)
			}, "%s", m)
		}
	}
}

// anyMessage is one to 1 from another member.
func anyMessage(random *rand.Rand) *raftpb.Message {
	number := func() *uint64 {
		switch random.IntN(20) {
		case 0:
			return nil
		case 1:
			return proto.Uint64(random.Uint64())
		}
		return proto.Uint64(random.Uint64N(8))
	}
	m := &raftpb.Message{
		Type: raftpb.MessageType(random.IntN(len(raftpb.MessageType_name) + 1)).Enum(),
		To:   proto.Uint64(1), From: proto.Uint64(2 + random.Uint64N(2)),
		Term: proto.Uint64(random.Uint64N(8)), Index: number(), LogTerm: number(), Commit: number(), RejectHint: number(), Vote: number(),
		Reject: proto.Bool(random.IntN(2) == 0),
	}
	if m.GetType() == raftpb.MsgHeartbeat {
		m.Commit = nil
	}
	if random.IntN(4) == 0 {
		m.Context = []byte("CampaignTransfer")
	}
	for i := range random.Uint64N(3) {
		m.Entries = append(m.Entries, &raftpb.Entry{Index: proto.Uint64(m.GetIndex() + i + 1), Term: proto.Uint64(m.GetLogTerm())})
	}
	switch random.IntN(4) {
	case 0:
		m.Snapshot = &raftpb.Snapshot{}
	case 1:
		m.Snapshot = raftlog.NewSnapshot(random.Uint64N(8), random.Uint64N(8), []uint64{1, 2, 3}, 1)
		if random.IntN(2) == 0 {
			some := func() (ids []uint64) {
				for range random.IntN(4) {
					ids = append(ids, random.Uint64N(4))
				}
				return ids
			}
			m.Snapshot.Metadata.ConfState = &raftpb.ConfState{
				Voters: some(), Learners: some(), VotersOutgoing: some(), LearnersNext: some(), AutoLeave: proto.Bool(random.IntN(4) == 0),
			}
		}
	}
	return m
}
