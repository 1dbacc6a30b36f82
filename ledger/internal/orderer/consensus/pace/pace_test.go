package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAClientAloneNeverWaits(t *testing.T) {
	p := Pacer{Interval: 4 * time.Millisecond}
	now := time.Unix(100, 0)
	for range 1000 {
		assert.LessOrEqual(t, p.Wait(now), time.Duration(0))
		p.Proposed(now, false)
		now = now.Add(500 * time.Microsecond)
	}
}

func TestACrowdIsSpacedUntilItIsOne(t *testing.T) {
	p := Pacer{Interval: 4 * time.Millisecond}
	now := time.Unix(100, 0)
	entries := 0
	for p.Wait(now) <= 0 && entries < 100 {
		p.Proposed(now, true)
		now = now.Add(time.Millisecond)
		entries++
	}
	assert.Less(t, entries, 10, "a crowd is noticed after a few entries")
	assert.Equal(t, 3*time.Millisecond, p.Wait(now))
	assert.LessOrEqual(t, p.Wait(now.Add(3*time.Millisecond)), time.Duration(0))

	for range 100 {
		now = now.Add(time.Second)
		p.Proposed(now, false)
	}
	assert.LessOrEqual(t, p.Wait(now), time.Duration(0), "and forgotten when each comes alone again")
}

func TestNoIntervalNoWaiting(t *testing.T) {
	p := Pacer{}
	now := time.Unix(100, 0)
	for range 100 {
		p.Proposed(now, true)
		assert.LessOrEqual(t, p.Wait(now), time.Duration(0))
	}
}

// through has entries take that long, until the average has forgotten others.
func through(p *Pacer, now time.Time, took time.Duration) {
	for i := range uint64(20 * tookWeight) {
		p.Appended(i+1, now)
		now = now.Add(took)
		p.Applied(i+1, now)
		p.Proposed(now, true)
	}
}

func TestTheIntervalGrowsWithTheTimeThatEntriesTake(t *testing.T) {
	p := Pacer{Interval: 4 * time.Millisecond, Most: 12 * time.Millisecond}
	now := time.Unix(100, 0)
	for took, want := range map[time.Duration]time.Duration{
		2 * time.Millisecond: 4 * time.Millisecond, 16 * time.Millisecond: 8 * time.Millisecond, time.Second: 12 * time.Millisecond,
	} {
		through(&p, now, took)
		assert.InDelta(t, want, p.Spacing(), float64(100*time.Microsecond), took)
	}

	through(&p, now, 2*time.Millisecond)
	p.Appended(1, now)
	p.Forget()
	p.Applied(2, now.Add(time.Hour))
	assert.InDelta(t, 4*time.Millisecond, p.Spacing(), float64(100*time.Microsecond), "an entry that its leader has lost")
}

func TestEntriesAreSlowFromWhereTheIntervalGrows(t *testing.T) {
	p := Pacer{Interval: 4 * time.Millisecond, Most: 12 * time.Millisecond}
	now, index := time.Unix(100, 0), uint64(0)
	take := func(each time.Duration) {
		for range 100 {
			index++
			p.Proposed(now, true)
			p.Appended(index, now)
			now = now.Add(each)
			p.Applied(index, now)
		}
	}
	assert.False(t, p.Slow())
	take(7 * time.Millisecond)
	assert.False(t, p.Slow())
	assert.Equal(t, p.Interval, p.Spacing())
	take(30 * time.Millisecond)
	assert.True(t, p.Slow())
	assert.Greater(t, p.Spacing(), p.Interval)
	take(time.Millisecond)
	assert.False(t, p.Slow())
	assert.False(t, (&Pacer{took: time.Hour}).Slow(), "without an interval nothing is")
}
