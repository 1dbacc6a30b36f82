package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAQueueKnowsWhatItemsFound: an item waits until it is begun, however long it has been taken.
func TestAQueueKnowsWhatItemsFound(t *testing.T) {
	q := newQueue[string]()
	assert.Equal(t, stood{}, q.stands())
	q.put("first")
	q.put("second")
	assert.Equal(t, stood{length: 2, came: 2, found: 1}, q.stands(), "the second has found the first")
	taken := q.take()
	q.put("third")
	assert.Equal(t, stood{length: 3, came: 3, found: 3}, q.stands(), "who has taken them is not there yet")
	q.begin(taken)
	assert.Equal(t, stood{length: 1, came: 3, found: 3}, q.stands())
	q.begin(q.take())
	assert.Equal(t, stood{came: 3, found: 3}, q.stands())
}
