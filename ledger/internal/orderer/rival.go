package orderer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// rivalAfter is how long one source that brings no block is asked alone. One at 1 Mbit/s, or one that lies and trickles, would keep this orderer
// behind for its whole turn otherwise, which is long where a block is large.
const rivalAfter = 2 * time.Second

// errOvertaken ends the turn of a source whose rival was faster. It is no fault.
var errOvertaken = errors.New("another orderer has brought the blocks")

// catchUpFromAny asks one orderer after the other for blocks, once each, and beside one that does not have this orderer catch
// up soon one of the others, for as long as that one is waited for. What comes is appended as it comes, and whoever brings the
// last block ends the other's turn.
func (ch *channel) catchUpFromAny(ctx context.Context, addresses []string, height uint64) (own error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type answer struct {
		address string
		err     error
	}
	ended, running, asked := make(chan answer), map[string]bool{}, 0 // running: whether it was asked for the first time
	var soon <-chan time.Time
	var had uint64 // had is the height when soon began
	ask := func() {
		address := addresses[asked%len(addresses)]
		if _, is := running[address]; is {
			asked++
			address = addresses[asked%len(addresses)]
		}
		asked++
		running[address] = asked <= len(addresses)
		go func() { ended <- answer{address, ch.catchUpFrom(ctx, address, height)} }()
		// Two share this orderer's link, which may itself be slow: after a round without a block each is asked alone.
		if ch.answers.vain%2 == 0 {
			soon, had = time.After(rivalAfter), ch.Height()
		}
	}
	for late, over := false, false; ; {
		beside := late && len(running) == 1 && len(addresses) > 1 && (asked < len(addresses) || firstRuns(running))
		switch {
		case len(running) == 0 && (over || asked >= len(addresses)):
			return own
		case !over && (len(running) == 0 || beside):
			late = false
			ask()
			continue
		}
		select {
		case <-soon:
			if height := ch.Height(); height > had { // it brings blocks, and another one would bring the same
				soon, had = time.After(rivalAfter), height
			} else {
				soon, late = nil, true
			}
		case a := <-ended:
			delete(running, a.address)
			switch {
			case errors.Is(a.err, chain.ErrOwn):
				own, over = a.err, true
				cancel(own)
			case ch.Height() >= height:
				over = true
				cancel(errOvertaken)
			case a.err != nil && asked <= len(addresses):
				ch.answers.add(a.address, a.err)
			}
		}
	}
}

// firstRuns reports whether one that is asked for the first time is among those that run.
func firstRuns(running map[string]bool) bool {
	return slices.Contains(slices.Collect(maps.Values(running)), true)
}

// catchUpFrom asks one orderer for blocks. It errs where that one has given none: the end of its turn is no fault. So it
// does where this orderer's own ledger fails.
func (ch *channel) catchUpFrom(ctx context.Context, address string, height uint64) error {
	brought, err := ch.importWhile(ctx, address, &ordererpb.SeekInfo{
		Start: seekNumber(ch.Height()), Stop: seekNumber(height - 1), Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY,
	}, func() bool { return ch.Height() < height })
	if brought && !errors.Is(err, chain.ErrOwn) {
		return nil
	}
	return err
}
