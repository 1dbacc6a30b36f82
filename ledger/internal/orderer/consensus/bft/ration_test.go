package bft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEachReplicaHasItsRation(t *testing.T) {
	r := Ration{Every: time.Second, Bytes: 10 + answerBytes}
	for _, step := range []struct {
		to    ID
		now   Time
		bytes int
		given bool
	}{
		{1, 0, 9, true},
		{1, 0, 1000, true}, // a byte was left
		{1, 0, 0, false},
		{2, 0, 1, true}, // another's is its own
		{3, 0, 0, true},
		{3, 0, 0, true}, // an empty answer takes something too
		{3, 0, 0, false},
		{1, time.Second - 1, 1, false},
		{1, time.Second, 10, true},
		{1, time.Second, 1, false},
		{2, time.Second - 1, 9, true},
		{2, time.Second - 1, 1, false},
		{2, 5 * time.Second, 1, true},
	} {
		assert.Equal(t, step.given, r.Take(step.to, step.now, step.bytes), "%+v", step)
	}
}
