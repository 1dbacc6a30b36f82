package orderer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestACertificateBelongsToItsOwnersLatestID: while a configuration ahead is heard, the ids in force are kept beside its own,
// and a consenter that was added again has one of each.
func TestACertificateBelongsToItsOwnersLatestID(t *testing.T) {
	again, other := []byte("added again"), []byte("stays")
	g := &group{members: map[uint64]member{1: {client: again}, 2: {client: other}, 3: {}, 4: {client: again}}}
	for range 100 { // a map has its members in random order
		assert.EqualValues(t, 4, g.owner(again))
		assert.EqualValues(t, 2, g.owner(other))
		assert.Zero(t, g.owner([]byte("a stranger's")))
	}
}
