package etcdraft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

const (
	// spareMessages and spareBytes (of entries) are the most that waits for one follower.
	spareMessages = 16
	spareBytes    = 256 << 10
)

// spares keeps entries back from the followers that no majority needs: an entry counts when the leader and those that
// are furthest have it, as many as make a majority. The others are told of several entries at once. That saves most of
// their wake-ups, syncs and answers, and on a shared host they do not take cores and disk from the members that are
// waited for. To Raft a late message is one that the network delayed. Should one of the furthest fall behind, the held
// messages still go out in time: their receiver overtakes it, and is waited for in its place.
type spares struct {
	shelf
	matched map[uint64]uint64 // matched is the last entry that each follower is known to have
}

// acknowledged notes what a follower has. One that refuses has something to catch up with first.
func (s *spares) acknowledged(m *raftpb.Message) {
	switch {
	case m.GetType() != raftpb.MsgAppResp:
	case m.GetReject():
		delete(s.matched, m.GetFrom())
	default:
		if s.matched == nil {
			s.matched = map[uint64]uint64{}
		}
		s.matched[m.GetFrom()] = max(s.matched[m.GetFrom()], m.GetIndex())
	}
}

// spare reports whether a majority is there without this member, of self and those members that are furthest. A
// member that has acknowledged nothing in this term is not spare.
func (s *spares) spare(id, self uint64, members []uint64) bool {
	own, follows := s.matched[id]
	if !follows {
		return false
	}
	ahead, member := 0, false
	for _, other := range members {
		switch {
		case other == id:
			member = true
		case other == self:
		case s.matched[other] > own, s.matched[other] == own && other < id:
			ahead++
		}
	}
	return member && ahead >= len(members)/2
}

// hold takes a message to a spare follower if it may wait.
func (s *spares) hold(m *raftpb.Message, now time.Time) bool {
	if s.atMost <= 0 || m.GetType() != raftpb.MsgApp {
		return false
	}
	waiting := s.held[m.GetTo()]
	size := 0
	for _, e := range m.GetEntries() {
		if e.GetType() != raftpb.EntryNormal {
			return false // the members change
		}
		size += len(e.GetData())
	}
	for _, before := range waiting {
		for _, e := range before.GetEntries() {
			size += len(e.GetData())
		}
	}
	if len(waiting) >= spareMessages || size > spareBytes {
		return false
	}
	if last := len(waiting) - 1; last >= 0 && len(waiting[last].GetEntries()) == 0 {
		waiting = waiting[:last] // it told what is committed, as this one does
	}
	s.put(m.GetTo(), append(waiting, m), now)
	return true
}

// unreachable makes a follower the last to be waited for.
func (s *spares) unreachable(id uint64) { delete(s.matched, id) }

// forget is for the end of a term.
func (s *spares) forget() { s.held, s.matched = nil, nil }
