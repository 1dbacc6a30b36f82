package consensus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ops"
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

// TestProposalsWaitUntilTheyAreTaken; one that there is no room for has not waited.
func TestProposalsWaitUntilTheyAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewIntake()
		for range queuedProposals {
			require.NoError(t, q.Put(Proposal{}))
		}
		require.ErrorIs(t, q.Put(Proposal{}), ErrOverload)
		time.Sleep(time.Second)
		q.Taken(<-q.C())
		for range queuedProposals - 2 {
			_, waits := q.Next()
			require.True(t, waits)
		}
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Length: 1, Came: queuedProposals, Waited: (queuedProposals + 1) * time.Second}, q.Stands())
	})
}
