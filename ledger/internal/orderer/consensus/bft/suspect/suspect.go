// Package suspect says when a leader takes too long, and when the next one does. Each gets twice as long as the one before,
// until something is ordered. One that was not heard for a while before, though a leader that is well tells its status even
// where nothing happens, gets half, until it is heard.
package suspect

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// Timer watches the leader. Its clock is its owner's.
type Timer struct {
	First bft.Time // how long the first leader has
	Most  bft.Time // that it doubles up to
	// Silence is for how long a leader that is well and has nothing to do may not be heard; 0: for any time.
	Silence bft.Time

	// At is when there is something to do; 0: it waits for nothing.
	At bft.Time

	given   uint // leaders given up in a row
	longest longest
	begun   bft.Time // when the wait for a new view began; 0: it has not begun
	heard   bft.Time // when the leader was heard, or could not be yet; 0: nobody has looked
}

// longest is what a replica waits for longest.
type longest struct {
	waits bool
	tx    bft.Digest // zero: for an entry that is under way
	seq   uint64
	since bft.Time
	told  bool // the leader has been given the transaction
	hurry bool // the leader was silent before, and is so still
}

// Patience is how long the present leader has.
func (t *Timer) Patience() bft.Time {
	p := t.First
	for range t.given {
		if p *= 2; p >= t.Most {
			return t.Most
		}
	}
	return p
}

// GaveUp notes that the leader is given up.
func (t *Timer) GaveUp() { t.given++ }

// Progress notes that something was ordered.
func (t *Timer) Progress() { t.given = 0 }

// Heard notes that the leader has said something, whatever it is. One that was silent has all of its time again.
func (t *Timer) Heard(now bft.Time) { t.heard, t.longest.hurry = now, false }

// Silent reports whether the leader has not been heard for longer than one that is well may keep still. Who looks for the
// first time could not hear it before.
func (t *Timer) Silent(now bft.Time) bool {
	if t.heard == 0 {
		t.heard = now
	}
	return t.Silence > 0 && now-t.heard > t.Silence
}

// share is how long the leader has for what is waited for longest.
func (t *Timer) share() bft.Time {
	if t.longest.hurry {
		return t.Patience() / 2
	}
	return t.Patience()
}

// Rest is for as long as a leader can do nothing wrong.
func (t *Timer) Rest(now bft.Time) { t.At, t.longest, t.heard = 0, longest{}, now }

// Turn is for a view that is left: the next one has not begun, and its leader could not be heard.
func (t *Timer) Turn() { t.longest, t.begun, t.heard = longest{}, 0, 0 }

// Begin starts the wait for a new view. Again is whether it may start anew.
func (t *Timer) Begin(now bft.Time, again bool) {
	if t.begun == 0 || again {
		t.begun = now
	}
}

// BeginsLate reports whether the new view takes too long.
func (t *Timer) BeginsLate(now bft.Time) bool { return t.begun != 0 && now >= t.begun+t.Patience() }

// Await has the wait for a new view end in time.
func (t *Timer) Await() {
	if t.begun != 0 {
		t.At = t.begun + t.Patience()
	}
}

// Look takes the transaction that waits longest (nil: none), or else the entry under way that does (0: none). After half of
// the leader's time tell hands it the transaction, because a liar may have brought it here and kept it from the leader.
// It reports whether the leader has what it takes, so that only Late is left to ask.
func (t *Timer) Look(now bft.Time, oldest *pool.Item, under uint64, tell func(tx []byte)) bool {
	t.At = 0
	next := longest{waits: true, since: now, hurry: t.Silent(now)}
	switch {
	case oldest != nil:
		next.tx = oldest.Digest
	case under != 0:
		next.seq = under
	default:
		next = longest{}
	}
	if next.waits != t.longest.waits || next.tx != t.longest.tx || next.seq != t.longest.seq {
		t.longest = next
	}
	if !t.longest.waits {
		return false
	}
	if oldest != nil && !t.longest.told {
		if half := t.longest.since + t.share()/2; now < half {
			t.At = half
			return false
		}
		t.longest.told = true
		tell(oldest.Tx)
	}
	return true
}

// Late reports whether the leader has taken too long for what Look has seen.
func (t *Timer) Late(now bft.Time) bool {
	t.At = t.longest.since + t.share()
	if now < t.At {
		return false
	}
	t.At = 0
	return true
}
