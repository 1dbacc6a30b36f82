package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	valid    = peerpb.TxValidationCode_VALID
	conflict = peerpb.TxValidationCode_MVCC_READ_CONFLICT
)

func TestWithoutConflictsAWindowHoldsAsMuchAsItsLimit(t *testing.T) {
	w := newWindow(100)
	for range 10_000 {
		w.learn(valid)
	}
	for range 100 {
		require.NoError(t, w.enter(context.Background()))
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, w.enter(gone), context.Canceled, "the 101st")
	w.leave()
	require.NoError(t, w.enter(context.Background()))
	assert.Equal(t, 100, w.inside)
	assert.Empty(t, w.queue)
}

// The share of conflicts settles where it shall, if it grows with the number of places.
func TestPlacesFollowTheShareOfConflicts(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	play := func(w *window, each float64, rounds int) (share float64) {
		conflicts := 0
		for range rounds {
			code := valid
			if dice.Float64() < each*w.places {
				code = conflict
				conflicts++
			}
			w.learn(code)
		}
		return float64(conflicts) / float64(rounds)
	}
	w := newWindow(500)
	play(w, 0.0001, 20_000)
	assert.InDelta(t, conflictShare, play(w, 0.0001, 50_000), 0.002)
	assert.InDelta(t, 100, w.places, 60)
	play(w, 0.01, 20_000)
	assert.InDelta(t, leastPlaces, w.places, 1, "never fewer, whatever it costs")
	play(w, 0, 20_000)
	assert.Equal(t, 500.0, w.places)
	for range 100 {
		w.learn(peerpb.TxValidationCode_ENDORSEMENT_POLICY_FAILURE)
	}
	assert.Equal(t, 500.0, w.places, "that would have failed at any time")
}

func TestWhoWaitsComesInInOrderAndTooManyAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(2)
		require.NoError(t, w.enter(context.Background()))
		require.NoError(t, w.enter(context.Background()))
		var order []int
		for i := range 2 {
			go func() {
				assert.NoError(t, w.enter(context.Background()))
				order = append(order, i)
			}()
			synctest.Wait()
		}
		require.ErrorIs(t, w.enter(context.Background()), errFull)
		w.leave()
		synctest.Wait()
		w.leave()
		synctest.Wait()
		assert.Equal(t, []int{0, 1}, order)
	})
}

// Those that give up keep no place, also when they are given one at the same moment.
func TestNoPlaceIsLost(t *testing.T) {
	w := newWindow(3)
	var inside, most atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithCancel(context.Background())
				if i%2 == 0 {
					go cancel()
				}
				if err := w.enter(ctx); err == nil {
					now := inside.Add(1)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					inside.Add(-1)
					w.leave()
				} else if !errors.Is(err, errFull) {
					assert.ErrorIs(t, err, context.Canceled)
				}
				cancel()
			}
		})
	}
	group.Wait()
	assert.LessOrEqual(t, most.Load(), int64(3))
	assert.Zero(t, w.inside)
	assert.Empty(t, w.queue)
}

func TestAnEndorsedTransactionKeepsItsPlaceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(10)
		for _, id := range []string{"submitted", "forgotten", "forgotten"} {
			require.NoError(t, w.enter(t.Context()))
			w.keep(id)
		}
		assert.Equal(t, 2, w.inside, "the same id twice has one place")
		assert.True(t, w.take("submitted"))
		assert.False(t, w.take("submitted"))
		assert.False(t, w.take("never seen"))
		time.Sleep(submitPatience + time.Millisecond) // of the test's own clock
		synctest.Wait()
		assert.Equal(t, 1, w.inside)
		assert.False(t, w.take("forgotten"))
		w.leave()
		assert.Zero(t, w.inside)
	})
}
