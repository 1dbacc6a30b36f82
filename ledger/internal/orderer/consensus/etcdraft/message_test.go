package etcdraft

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func appendMessage() *raftpb.Message {
	return &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), To: proto.Uint64(1), From: proto.Uint64(2), Term: proto.Uint64(3), LogTerm: proto.Uint64(0), Index: proto.Uint64(5),
		Commit: proto.Uint64(1 << 40), Entries: []*raftpb.Entry{
			{Term: proto.Uint64(3), Index: proto.Uint64(6), Type: raftpb.EntryNormal.Enum(), Data: []byte("entry")}, {Term: proto.Uint64(3), Index: proto.Uint64(7)},
		},
	}
}

// TestMessagesAreReadAsTheLibraryReadsThem, whole and changed at random.
func TestMessagesAreReadAsTheLibraryReadsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	others := []*raftpb.Message{
		appendMessage(), {Type: raftpb.MsgHeartbeat.Enum(), Context: []byte("c")}, {Type: raftpb.MsgAppResp.Enum(), Reject: proto.Bool(true), RejectHint: proto.Uint64(4)},
		{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{Data: []byte("s")}}, {}, nil,
	}
	for i := range 100_000 {
		raw, err := proto.Marshal(others[i%len(others)])
		require.NoError(t, err)
		for range min(i/len(others), random.IntN(3)) {
			if len(raw) > 0 {
				raw[random.IntN(len(raw))] = byte(random.IntN(256))
			}
		}
		agrees(t, raw)
	}
}

func agrees(t *testing.T, raw []byte) {
	t.Helper()
	var want raftpb.Message
	wanted := proto.Unmarshal(raw, &want)
	got, err := parseMessage(raw)
	require.Equal(t, wanted == nil, err == nil, "%x", raw)
	if err == nil {
		require.True(t, proto.Equal(&want, got), "%x", raw)
	}
}

func FuzzParseMessage(f *testing.F) {
	raw, err := proto.Marshal(appendMessage())
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(agrees)
}

func TestAppendedEntriesAreNotCopied(t *testing.T) {
	raw, err := proto.Marshal(appendMessage())
	require.NoError(t, err)
	m, err := parseMessage(raw)
	require.NoError(t, err)
	require.Equal(t, "entry", string(m.Entries[0].Data))
	for i := range raw {
		raw[i] = 'x'
	}
	assert.Equal(t, "xxxxx", string(m.Entries[0].Data))
}
