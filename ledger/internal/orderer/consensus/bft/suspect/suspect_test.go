package suspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

func item(tx string) *pool.Item { return &pool.Item{Tx: []byte(tx), Digest: bft.TxDigest([]byte(tx))} }

func TestEachLeaderGetsTwiceAsLong(t *testing.T) {
	timer := Timer{First: time.Second, Most: 5 * time.Second}
	var got []bft.Time
	for range 5 {
		got = append(got, timer.Patience())
		timer.GaveUp()
	}
	assert.Equal(t, []bft.Time{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}, got)
	timer.Progress()
	assert.Equal(t, time.Second, timer.Patience())
}

func TestALeaderIsToldBeforeItIsLate(t *testing.T) {
	timer := Timer{First: time.Second, Most: time.Second}
	var told []string
	look := func(now bft.Time) bool {
		return timer.Look(now, item("a"), 0, func(tx []byte) { told = append(told, string(tx)) })
	}
	assert.False(t, look(1))
	assert.Equal(t, 1+time.Second/2, timer.At)
	assert.True(t, look(timer.At))
	assert.Equal(t, []string{"a"}, told)
	assert.False(t, timer.Late(timer.At+1))
	assert.Equal(t, 1+time.Second, timer.At)
	assert.True(t, look(timer.At), "it is told once")
	assert.True(t, timer.Late(1+time.Second))
	assert.Len(t, told, 1)
}

func TestALeaderThatWasSilentHasHalfOfItsTime(t *testing.T) {
	const silence = 3 * time.Second
	for name, c := range map[string]struct {
		heard bft.Time // 0: never
		asked bft.Time
		want  bft.Time // after asked
	}{
		"heard lately":      {asked: 1 + silence, want: time.Second},
		"silent":            {asked: 2 + silence, want: time.Second / 2},
		"heard just before": {heard: 2 + silence, asked: 3 + silence, want: time.Second},
		"heard meanwhile":   {heard: 3 + silence, asked: 2 + silence, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			timer := Timer{First: time.Second, Most: time.Second, Silence: silence}
			assert.False(t, timer.Silent(1), "it could not be heard before")
			if c.heard != 0 && c.heard < c.asked {
				timer.Heard(c.heard)
			}
			assert.True(t, timer.Look(c.asked, nil, 7, nil))
			if c.heard > c.asked {
				timer.Heard(c.heard)
			}
			assert.False(t, timer.Late(c.asked))
			assert.Equal(t, c.asked+c.want, timer.At)
			assert.True(t, timer.Late(c.asked+c.want))
		})
	}
}

func TestALeaderThatWasSilentIsToldSooner(t *testing.T) {
	timer := Timer{First: time.Second, Most: time.Second, Silence: time.Second}
	timer.Heard(1)
	asked, told := 1+time.Minute, 0
	look := func(now bft.Time) bool { return timer.Look(now, item("a"), 0, func([]byte) { told++ }) }
	assert.False(t, look(asked))
	assert.Equal(t, asked+time.Second/4, timer.At)
	assert.True(t, look(timer.At))
	timer.Heard(asked + time.Second/4)
	assert.False(t, timer.Late(asked+time.Second/2))
	assert.Equal(t, asked+time.Second, timer.At, "it has all of its time again")
	assert.Equal(t, 1, told)
}

func TestALeaderThatCannotActYetIsNotSilent(t *testing.T) {
	timer := Timer{First: time.Second, Most: time.Second, Silence: time.Second}
	timer.Heard(1)
	assert.True(t, timer.Silent(time.Minute))
	timer.Rest(time.Minute)
	assert.False(t, timer.Silent(time.Minute+time.Second))
	assert.True(t, timer.Silent(time.Hour))
	timer.Turn()
	assert.False(t, timer.Silent(time.Hour), "that was the leader before")
	timer.Silence = 0
	assert.False(t, timer.Silent(2*time.Hour))
}

func TestTheTimeBeginsAnewWithWhatWaitsNext(t *testing.T) {
	timer := Timer{First: time.Second, Most: time.Second}
	none := func([]byte) { t.Fatal("nobody is to be told") }
	assert.True(t, timer.Look(1, nil, 7, none))
	assert.False(t, timer.Late(time.Second))
	assert.True(t, timer.Look(time.Second, nil, 8, none))
	assert.False(t, timer.Late(time.Second+2), "the entry before is ordered")
	assert.False(t, timer.Look(time.Second+3, nil, 0, none))
	assert.Zero(t, timer.At)
}

func TestANewViewTakesTooLong(t *testing.T) {
	timer := Timer{First: time.Second, Most: time.Minute}
	assert.False(t, timer.BeginsLate(time.Hour), "nobody waits for it yet")
	timer.Begin(10, false)
	timer.Begin(20, false)
	timer.Await()
	assert.Equal(t, 10+time.Second, timer.At)
	assert.True(t, timer.BeginsLate(timer.At))
	timer.Begin(20, true)
	assert.False(t, timer.BeginsLate(timer.At))
	timer.Turn()
	assert.False(t, timer.BeginsLate(time.Hour))
}
