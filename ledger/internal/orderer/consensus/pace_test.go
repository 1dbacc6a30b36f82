package consensus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAClientAloneNeverWaits(t *testing.T) {
	p := pacer{interval: 4 * time.Millisecond}
	now := time.Unix(100, 0)
	for range 1000 {
		assert.LessOrEqual(t, p.wait(now), time.Duration(0))
		p.proposed(now, false)
		now = now.Add(500 * time.Microsecond)
	}
}

func TestACrowdIsSpacedUntilItIsOne(t *testing.T) {
	p := pacer{interval: 4 * time.Millisecond}
	now := time.Unix(100, 0)
	entries := 0
	for p.wait(now) <= 0 && entries < 100 {
		p.proposed(now, true)
		now = now.Add(time.Millisecond)
		entries++
	}
	assert.Less(t, entries, 10, "a crowd is noticed after a few entries")
	assert.Equal(t, 3*time.Millisecond, p.wait(now))
	assert.LessOrEqual(t, p.wait(now.Add(3*time.Millisecond)), time.Duration(0))

	for range 100 {
		now = now.Add(time.Second)
		p.proposed(now, false)
	}
	assert.LessOrEqual(t, p.wait(now), time.Duration(0), "and forgotten when each comes alone again")
}

func TestNoIntervalNoWaiting(t *testing.T) {
	p := pacer{}
	now := time.Unix(100, 0)
	for range 100 {
		p.proposed(now, true)
		assert.LessOrEqual(t, p.wait(now), time.Duration(0))
	}
}
