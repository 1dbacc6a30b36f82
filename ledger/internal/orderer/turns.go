package orderer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	followSilence = 3 * time.Second
	followTurn    = 5 * time.Second // of one source; the next goes on from there
	// slowStart is how long a source may take for a block without sending it at 1 Mbit/s: one of 2 MB comes over a slower
	// link, too.
	slowStart = 20 * time.Second
)

var (
	// errSilent is told of an orderer that has sent nothing for followSilence.
	errSilent = fmt.Errorf("it has sent nothing for %s", followSilence)
	// errLate is told of one whose turn has ended.
	errLate = errors.New("the block did not come within its turn")
	// errLong is told of one whose configurations up to its newest block have taken longer than proofTimeout beside a turn.
	errLong = errors.New("its newest block and the configurations up to it took longer than")
)

// turns is how long sources are given for what comes after some height: each twice as long after a turn that ended within
// its first block, which may be a large one, and all half as long at a new height, where the next may be as large. So is the
// time in which a source may send at less than 1 Mbit/s, which doubles where that was not enough: one that lies can keep this
// orderer from the others for longer only where no other source brings the block. While there is none, no turn gets longer.
type turns struct {
	height  uint64
	doubled map[string]int // of turns, by source
	slower  map[string]int // doublings of slowStart, by source
}

func (t *turns) of(address string, height uint64) time.Duration {
	if height != t.height {
		t.height = height
		for _, doubled := range []map[string]int{t.doubled, t.slower} {
			for source, times := range doubled {
				doubled[source] = max(0, times-1)
			}
		}
	}
	return followTurn << t.doubled[address]
}

// sort puts those first whose turns have not ended within a block: where some lie, they are not asked before the others.
func (t *turns) sort(addresses []string) []string {
	slices.SortStableFunc(addresses, func(a, b string) int { return t.doubled[a] - t.doubled[b] })
	return addresses
}

// tooShort has the next turn be longer, up to what the channel's largest message takes at 1 Mbit/s.
func (t *turns) tooShort(address string, largest int) {
	t.doubled = doubleOnce(t.doubled, address, followTurn, largest)
}

// doubleOnce counts one more doubling of a time, unless that is enough for the channel's largest message at 1 Mbit/s.
func doubleOnce(doubled map[string]int, address string, first time.Duration, largest int) map[string]int {
	if first<<doubled[address] >= time.Duration(largest)*slowByte {
		return doubled
	}
	if doubled == nil {
		doubled = map[string]int{}
	}
	doubled[address]++
	return doubled
}

// forget has each source have its first turn again.
func (t *turns) forget() { t.doubled, t.slower = nil, nil }

// turn is the time of one source. It ends early where the source sends nothing, or too little.
type turn struct {
	*pace
	length time.Duration
	silent *time.Timer
	end    func()
}

// begin gives a source its turn, with the end of which ctx ends. Its cause is then errLate, errSilent or errSlow.
func (t *turns) begin(ctx context.Context, address string, height uint64, largest int) (context.Context, *turn) {
	length := t.of(address, height)
	ctx, leave := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, length, fmt.Errorf("%w of %s", errLate, length))
	silent := time.AfterFunc(followSilence, func() { leave(errSilent) })
	pace := newPace(slowStart<<t.slower[address], largest, func() { leave(errSlow) })
	return ctx, &turn{pace, length, silent, func() {
		silent.Stop()
		pace.stop()
		cancel()
		leave(nil)
	}}
}

// heard counts bytes that have come: a large block is heard long before it is there.
func (t *turn) heard(bytes int) {
	t.silent.Reset(followSilence)
	t.pace.heard(bytes)
}

// again begins anew after a block: to append it takes time as well.
func (t *turn) again() {
	t.silent.Reset(followSilence)
	t.pace.again()
}

// judge is told why a source's turn has ended without what was asked for.
func (t *turns) judge(address string, cause error, largest int) {
	if errors.Is(cause, errSlow) {
		t.slower = doubleOnce(t.slower, address, slowStart, largest)
	}
	if errors.Is(cause, errSlow) || errors.Is(cause, errLate) || errors.Is(cause, errLong) {
		t.tooShort(address, largest)
	}
}
