package etcdraft

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// TestWhatIsProposedMakesRoom in the queue, whatever becomes of it.
func TestWhatIsProposedMakesRoom(t *testing.T) {
	const self, size = 1, 1 << 20
	n := &Node{cfg: Config{ID: self, Sequence: func() uint64 { return 0 }}, intake: consensus.NewIntake(), outbox: &outbox{}}
	failed := 0
	fill := func() (queued int) {
		n.leader.Store(self)
		for {
			err := n.Submit(consensus.Proposal{Tx: make([]byte, size), Config: queued%7 == 3, Settle: func(error) { failed++ }})
			if err != nil {
				require.ErrorIs(t, err, consensus.ErrOverload)
				return queued
			}
			queued++
		}
	}
	room := fill()
	require.Positive(t, room)
	for range 2 {
		n.leader.Store(0) // what waits fails
		for n.intake.Len() > 0 {
			n.propose(<-n.intake.C())
			n.configs.next = nil
		}
		require.Equal(t, room, fill(), "all of it is free again")
	}
	assert.Positive(t, failed)
}
