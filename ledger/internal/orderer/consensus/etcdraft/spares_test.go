package etcdraft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func acknowledge(from, index uint64) *raftpb.Message {
	return &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: proto.Uint64(from), Index: proto.Uint64(index)}
}

func TestAMajorityIsNeverSpare(t *testing.T) {
	for name, c := range map[string]struct {
		members []uint64
		matched map[uint64]uint64
		spare   []uint64
	}{
		"one":                       {members: []uint64{1}},
		"two":                       {members: []uint64{1, 2}},
		"three, nothing known":      {members: []uint64{1, 2, 3}},
		"three, alike":              {members: []uint64{1, 2, 3}, matched: map[uint64]uint64{2: 4, 3: 4}, spare: []uint64{3}},
		"three, one further":        {members: []uint64{1, 2, 3}, matched: map[uint64]uint64{2: 4, 3: 5}, spare: []uint64{2}},
		"four need two":             {members: []uint64{1, 2, 3, 4}, matched: map[uint64]uint64{2: 4, 3: 4, 4: 4}, spare: []uint64{4}},
		"five need two":             {members: []uint64{1, 2, 3, 4, 5}, matched: map[uint64]uint64{2: 1, 3: 9, 4: 1, 5: 8}, spare: []uint64{2, 4}},
		"three, one who is to join": {members: []uint64{1, 2, 3}, matched: map[uint64]uint64{2: 2, 3: 1, 9: 0}, spare: []uint64{3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := spares{shelf: shelf{atMost: time.Second}}
			for from, index := range c.matched {
				s.acknowledged(acknowledge(from, index))
			}
			var spare []uint64
			for id := uint64(2); id < 10; id++ {
				if s.spare(id, 1, c.members) {
					spare = append(spare, id)
				}
			}
			assert.Equal(t, c.spare, spare)
		})
	}
}

func TestWhatWaitsForASpareIsBoundedAndInOrder(t *testing.T) {
	now := time.Unix(100, 0)
	entries := func(index uint64, size int) *raftpb.Message {
		return &raftpb.Message{Type: raftpb.MsgApp.Enum(), To: proto.Uint64(3), Index: &index, Entries: []*raftpb.Entry{{Data: make([]byte, size)}}}
	}
	s := spares{shelf: shelf{atMost: 10 * time.Millisecond}}
	for i := range uint64(spareMessages) {
		assert.True(t, s.hold(entries(i, 1), now.Add(time.Duration(i))))
	}
	assert.False(t, s.hold(entries(spareMessages, 1), now))
	wait, holds := s.wait(now.Add(4 * time.Millisecond))
	assert.True(t, holds)
	assert.Equal(t, 6*time.Millisecond, wait, "the oldest counts")
	taken := s.take(3)
	assert.Len(t, taken, spareMessages)
	for i, m := range taken {
		assert.Equal(t, uint64(i), m.GetIndex())
	}
	_, holds = s.wait(now)
	assert.False(t, holds)

	assert.True(t, s.hold(entries(0, spareBytes-1), now))
	assert.False(t, s.hold(entries(1, 2), now), "many bytes do not wait")
	s.release()

	told := &raftpb.Message{Type: raftpb.MsgApp.Enum(), To: proto.Uint64(3)}
	assert.True(t, s.hold(told, now))
	assert.True(t, s.hold(entries(7, 1), now))
	assert.Len(t, s.take(3), 1, "what tells how far the log is committed is told by the next one as well")

	change := &raftpb.Message{Type: raftpb.MsgApp.Enum(), To: proto.Uint64(3), Entries: []*raftpb.Entry{{Type: raftpb.EntryConfChange.Enum()}}}
	assert.False(t, s.hold(change, now))
	assert.False(t, s.hold(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), To: proto.Uint64(3)}, now))
	assert.False(t, (&spares{}).hold(entries(1, 1), now), "without a time nothing waits")
}

func TestWhoCannotBeReachedIsWaitedForLast(t *testing.T) {
	s := spares{shelf: shelf{atMost: time.Second}}
	s.acknowledged(acknowledge(2, 10))
	s.acknowledged(acknowledge(3, 5))
	assert.True(t, s.spare(3, 1, []uint64{1, 2, 3}))
	s.unreachable(2)
	assert.False(t, s.spare(3, 1, []uint64{1, 2, 3}))
	s.acknowledged(acknowledge(2, 3))
	assert.True(t, s.spare(2, 1, []uint64{1, 2, 3}))
	s.acknowledged(&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: proto.Uint64(2), Index: proto.Uint64(99), Reject: proto.Bool(true)})
	assert.False(t, s.spare(2, 1, []uint64{1, 2, 3}), "it has something to catch up with")
}
