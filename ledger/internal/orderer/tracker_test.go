package orderer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhoHasGivenUpTakesNobodysAnswer: a client that sends its transaction again waits for the new copy.
func TestWhoHasGivenUpTakesNobodysAnswer(t *testing.T) {
	tx := []byte("tx")
	for givesUp := range 3 {
		waiting := newTracker()
		var all []*waiter
		for range 3 {
			all = append(all, waiting.add(tx))
		}
		waiting.forget(all[givesUp])
		waiting.forget(all[givesUp])
		waiting.ordered([][]byte{tx, tx})
		for i, w := range all {
			assert.Len(t, w.result, map[bool]int{false: 1, true: 0}[i == givesUp])
		}
		assert.Zero(t, waiting.count())
	}
}
