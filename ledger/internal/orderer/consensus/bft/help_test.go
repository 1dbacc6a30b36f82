package bft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhoIsAnswered(t *testing.T) {
	g := Group{Members: []ID{1, 2, 1000}}
	var r Replies
	for _, step := range []struct {
		to  ID
		now Time
		due bool
	}{
		{1, 0, true},
		{1, time.Second/2 - 1, false},
		{2, time.Second/2 - 1, true},
		{1, time.Second / 2, true},
		{1, time.Second, true},
	} {
		assert.Equal(t, step.due, r.Due(step.to, g, step.now, time.Second), "%+v", step)
	}
	for stranger := range ID(strangers - 2) {
		assert.True(t, r.Due(3+stranger, g, time.Second, time.Second))
	}
	assert.False(t, r.Due(999, g, time.Second, time.Second), "one stranger too many")
	assert.True(t, r.Due(3, g, 2*time.Second, time.Second), "one that was answered before")
	assert.True(t, r.Due(1000, g, time.Second, time.Second), "a member")
	g.Epoch = 7
	assert.True(t, r.Due(999, g, time.Second, time.Second), "one in another epoch")
}
