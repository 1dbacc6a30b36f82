package etcdraft

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// acquainted is a host that knows every sender.
type acquainted struct{ *machine }

func (acquainted) Knows(uint64) bool { return true }

// TestEntriesOutOfOrderAreRefused: the Raft core takes it for granted that they follow each other, and would end the process.
func TestEntriesOutOfOrderAreRefused(t *testing.T) {
	type place struct{ index, term uint64 }
	const term = 7 // of the leader that sends them after entry 1 of term 1
	for name, c := range map[string]struct {
		entries []place
		refused bool
	}{
		"none":                         {},
		"in order":                     {entries: []place{{2, 1}, {3, 4}, {4, term}}},
		"after a gap":                  {entries: []place{{9, term}}, refused: true},
		"a gap between":                {entries: []place{{2, term}, {4, term}}, refused: true},
		"from further back":            {entries: []place{{1, term}, {2, term}}, refused: true},
		"one twice":                    {entries: []place{{2, term}, {2, term}}, refused: true},
		"a term that falls":            {entries: []place{{2, 4}, {3, 3}}, refused: true},
		"older than the one before":    {entries: []place{{2, 0}}, refused: true},
		"of a term after the leader's": {entries: []place{{2, term + 1}}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newGroup(t, 3, false, false).nodes[1]
			n.host = acquainted{n.host.(*machine)}
			m := &raftpb.Message{
				Type: raftpb.MsgApp.Enum(), To: proto.Uint64(1), From: proto.Uint64(2),
				Term: proto.Uint64(term), Index: proto.Uint64(1), LogTerm: proto.Uint64(1), Commit: proto.Uint64(100),
			}
			for _, e := range c.entries {
				m.Entries = append(m.Entries, &raftpb.Entry{Index: proto.Uint64(e.index), Term: proto.Uint64(e.term), Data: []byte("x")})
			}
			raw, err := proto.Marshal(m)
			require.NoError(t, err)
			err = n.Step(2, raw)
			for n.messages.Len() > 0 {
				assert.NotPanics(t, func() { n.take(<-n.messages.C()) })
			}
			if c.refused {
				assert.Equal(t, codes.InvalidArgument, status.Code(err))
				assert.EqualValues(t, 1, n.raft.Status().GetTerm(), "it changes nothing")
				return
			}
			require.NoError(t, err)
			assert.EqualValues(t, 1+len(c.entries), n.raft.Status().GetCommit())
		})
	}
}
