package etcdraft

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestMessagesThatKeepComingLeaveTimeForTheRest: clock, log and ledger wait while messages are taken.
func TestMessagesThatKeepComingLeaveTimeForTheRest(t *testing.T) {
	const most, many = 2 * queuedMessages, 16 * queuedMessages
	n := newGroup(t, 3, false, false).nodes[1]
	m := &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), To: proto.Uint64(1), From: proto.Uint64(2), Term: proto.Uint64(1),
		Index: proto.Uint64(1), LogTerm: proto.Uint64(1), Entries: indexed(2, 500), // to take it takes longer than to put it
	}
	for _, e := range m.Entries {
		e.Term = proto.Uint64(1)
	}
	put := 0
	for n.messages.Put(m) {
		put++
	}
	first := <-n.messages.C()
	var enough atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for put < many && !enough.Load() {
			if n.messages.Put(m) {
				put++
			}
		}
	}()
	n.take(first)
	enough.Store(true)
	<-ended
	taken := put - n.messages.Len()
	assert.LessOrEqual(t, taken, most)
	for n.messages.Len() > 0 {
		n.take(<-n.messages.C())
	}
	assert.Empty(t, n.batch)
}
