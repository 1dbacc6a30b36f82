package consensus

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// holder keeps back, for each follower and at most for the time that it is given, the last message without
// entries. Nearly all of them tell what is committed, which the next entries tell as well: on a busy channel
// each transaction saves two messages and their wake-ups. Raft takes a message that comes late, or never, for
// one that the network delayed or lost.
type holder struct {
	atMost   time.Duration
	messages map[uint64]*raftpb.Message
	since    time.Time // when the oldest of them came
}

// hold takes m if it may wait. Any other append to the same follower makes what was held superfluous.
func (h *holder) hold(m *raftpb.Message, now time.Time) bool {
	if h.atMost <= 0 || m.GetType() != raftpb.MsgApp {
		return false
	}
	if len(m.GetEntries()) > 0 {
		delete(h.messages, m.GetTo())
		return false
	}
	if h.messages == nil {
		h.messages = map[uint64]*raftpb.Message{}
	}
	if len(h.messages) == 0 {
		h.since = now
	}
	h.messages[m.GetTo()] = m
	return true
}

// wait is how long the oldest may still wait; false when nothing is held.
func (h *holder) wait(now time.Time) (time.Duration, bool) {
	return h.since.Add(h.atMost).Sub(now), len(h.messages) > 0
}

// release gives up what is held.
func (h *holder) release() map[uint64]*raftpb.Message {
	messages := h.messages
	h.messages = nil
	return messages
}
