package chain

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/validate"
)

// TestWhatTakesARewoundPlaceIsNotDurable: a transaction in a place that was taken back is durable only after stage 3, which
// writes to the disk, has taken that place back too.
func TestWhatTakesARewoundPlaceIsNotDurable(t *testing.T) {
	x := newIndex()
	durable := func(key validate.TxKey) bool {
		t.Helper()
		_, ok, err := x.lookup(key)
		require.NoError(t, err)
		return ok
	}
	before, taken, other := validate.TxKey{1}, validate.TxKey{2}, validate.TxKey{3}
	x.claim(before, Position{4, 0}, valid)
	x.claim(taken, Position{5, 0}, valid)
	x.publish(Position{5, 3}, 0, nil)
	assert.True(t, durable(taken))

	x.rewind(5)
	x.claim(other, Position{5, 0}, valid)
	assert.False(t, durable(other))
	assert.True(t, durable(before))
	x.publish(Position{5, 8}, 0, nil) // what the disk was at
	assert.False(t, durable(other))
	x.rewind(5)
	x.claim(other, Position{5, 0}, valid)
	x.publish(Position{5, 1}, 1, nil)
	assert.False(t, durable(other), "it was taken back once more")
	x.publish(Position{5, 0}, 1, nil)
	assert.False(t, durable(other))
	x.publish(Position{5, 1}, 0, nil)
	assert.True(t, durable(other))
}
