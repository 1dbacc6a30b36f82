package etcdraft

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

// through has entries take that long, until the average has forgotten others.
func through(p *pacer, now time.Time, took time.Duration) {
	for i := range uint64(20 * tookWeight) {
		p.appended(i+1, now)
		now = now.Add(took)
		p.applied(i+1, now)
		p.proposed(now, true)
	}
}

func TestTheIntervalGrowsWithTheTimeThatEntriesTake(t *testing.T) {
	p := pacer{interval: 4 * time.Millisecond, most: 12 * time.Millisecond}
	now := time.Unix(100, 0)
	for took, want := range map[time.Duration]time.Duration{
		2 * time.Millisecond: 4 * time.Millisecond, 16 * time.Millisecond: 8 * time.Millisecond, time.Second: 12 * time.Millisecond,
	} {
		through(&p, now, took)
		assert.InDelta(t, want, p.spacing(), float64(100*time.Microsecond), took)
	}

	through(&p, now, 2*time.Millisecond)
	p.appended(1, now)
	p.forget()
	p.applied(2, now.Add(time.Hour))
	assert.InDelta(t, 4*time.Millisecond, p.spacing(), float64(100*time.Microsecond), "an entry that its leader has lost")
}

func TestEntriesAreSlowFromWhereTheIntervalGrows(t *testing.T) {
	p := pacer{interval: 4 * time.Millisecond, most: 12 * time.Millisecond}
	now, index := time.Unix(100, 0), uint64(0)
	take := func(each time.Duration) {
		for range 100 {
			index++
			p.proposed(now, true)
			p.appended(index, now)
			now = now.Add(each)
			p.applied(index, now)
		}
	}
	assert.False(t, p.slow())
	take(7 * time.Millisecond)
	assert.False(t, p.slow())
	assert.Equal(t, p.interval, p.spacing())
	take(30 * time.Millisecond)
	assert.True(t, p.slow())
	assert.Greater(t, p.spacing(), p.interval)
	take(time.Millisecond)
	assert.False(t, p.slow())
	assert.False(t, (&pacer{took: time.Hour}).slow(), "without an interval nothing is")
}
