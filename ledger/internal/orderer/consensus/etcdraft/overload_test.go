package etcdraft

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// TestProposalsAreBoundInBytes, not in number alone.
func TestProposalsAreBoundInBytes(t *testing.T) {
	const self, size = 1, 1 << 20
	n := &Node{cfg: Config{ID: self}, proposals: make(chan Proposal, queuedProposals), bytes: semaphore.NewWeighted(queuedBytes), outbox: &outbox{}}
	failed := 0
	fill := func(size int) (queued int) {
		n.leader.Store(self)
		for n.Propose(Proposal{Tx: make([]byte, size), Config: queued%7 == 3, Fail: func(error) { failed++ }}) == nil {
			queued++
		}
		return queued
	}
	for round := range 2 {
		require.Equal(t, queuedBytes/size, fill(size), round)
		n.leader.Store(0) // what waits fails
		for len(n.proposals) > 0 {
			n.propose(<-n.proposals)
			n.config = nil
		}
		require.True(t, n.bytes.TryAcquire(queuedBytes), "all of it is free again")
		n.bytes.Release(queuedBytes)
	}
	assert.Positive(t, failed)
	assert.Equal(t, 1, fill(queuedBytes+1), "a larger one waits alone")
	for range queuedProposals {
		assert.ErrorIs(t, n.Propose(Proposal{Tx: make([]byte, 1)}), consensus.ErrOverload)
	}
	assert.False(t, n.bytes.TryAcquire(1))
	n.leader.Store(0)
	n.propose(<-n.proposals)
	assert.True(t, n.bytes.TryAcquire(queuedBytes), "the larger one gives back what it took")
}
