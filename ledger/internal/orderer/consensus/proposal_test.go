package consensus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProposalsAreBoundInBytes, not in number alone.
func TestProposalsAreBoundInBytes(t *testing.T) {
	const size = 1 << 20
	q := NewIntake()
	fill := func(size int) (queued int) {
		for q.Put(Proposal{Tx: make([]byte, size)}) == nil {
			queued++
		}
		return queued
	}
	for round := range 2 {
		require.Equal(t, queuedBytes/size, fill(size), round)
		q.Taken(<-q.C())
		for _, waits := q.Next(); waits; {
			_, waits = q.Next()
		}
		require.Zero(t, q.Len())
		require.True(t, q.bytes.TryAcquire(queuedBytes), "all of it is free again")
		q.bytes.Release(queuedBytes)
	}
	assert.Equal(t, 1, fill(queuedBytes+1), "a larger one waits alone")
	for range queuedProposals {
		assert.ErrorIs(t, q.Put(Proposal{Tx: make([]byte, 1)}), ErrOverload)
	}
	assert.False(t, q.bytes.TryAcquire(1))
	q.Taken(<-q.C())
	assert.True(t, q.bytes.TryAcquire(queuedBytes), "the larger one gives back what it took")
}
