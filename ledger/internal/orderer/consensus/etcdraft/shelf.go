package etcdraft

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// shelf keeps messages back, in order for each receiver. The clock is its caller's.
type shelf struct {
	atMost time.Duration                // atMost is how long a message may wait; 0: none waits
	held   map[uint64][]*raftpb.Message // held are the messages by receiver
	since  time.Time                    // since is when the oldest of them came
}

// put has the messages of one receiver wait. They take the place of those that it had.
func (s *shelf) put(to uint64, messages []*raftpb.Message, now time.Time) {
	if s.held == nil {
		s.held = map[uint64][]*raftpb.Message{}
	}
	if len(s.held) == 0 {
		s.since = now
	}
	s.held[to] = messages
}

// wait is how long the oldest message may still wait; false when there is none.
func (s *shelf) wait(now time.Time) (time.Duration, bool) {
	return s.since.Add(s.atMost).Sub(now), len(s.held) > 0
}

// take removes the messages of one receiver.
func (s *shelf) take(to uint64) []*raftpb.Message {
	messages := s.held[to]
	delete(s.held, to)
	return messages
}

// release removes all messages.
func (s *shelf) release() map[uint64][]*raftpb.Message {
	held := s.held
	s.held = nil
	return held
}
