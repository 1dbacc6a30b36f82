package etcdraft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// notices keeps back, for each follower, the last message without entries. Nearly all of these messages tell what is
// committed, which the next entries tell as well: on a busy channel each transaction saves two messages and their
// wake-ups. To Raft a message that comes late, or never, is one that the network delayed or lost.
type notices struct{ shelf }

// hold takes an append message if it may wait. Any other append to the same follower makes what was held superfluous.
func (h *notices) hold(m *raftpb.Message, now time.Time) bool {
	if h.atMost <= 0 || len(m.GetEntries()) > 0 {
		delete(h.held, m.GetTo())
		return false
	}
	h.put(m.GetTo(), append(h.held[m.GetTo()][:0], m), now)
	return true
}
