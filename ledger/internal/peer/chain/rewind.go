package chain

import (
	"errors"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
)

// ErrRewound says that what was received cannot be trusted, and was taken back unless enough orderers have vouched for it:
// what follows has to be fetched from Position on, best from another orderer.
var ErrRewound = errors.New("what was received cannot be trusted: it is dropped, but for what enough orderers have vouched for")

// base is what items in the pipeline follow. A new one makes those in it stale.
type base struct {
	position    Position
	bundle      *channelconfig.Bundle
	blockBundle *channelconfig.Bundle // in force when the open block began
	bounds      bounds                // of the open block
	taken       int                   // how often the open block was taken back before
	gone        chan struct{}         // closes when there is a new one
}

// rejoin takes over what was taken back since the last item; of the goroutine that receives.
func (p *pipeline) rejoin() bool {
	now := p.base.Load()
	if now == p.known {
		return false
	}
	p.known, p.position, p.bundle, p.config = now, now.position, now.bundle, nil
	p.blockBundle, p.bounds = now.blockBundle, now.bounds
	return true
}

// deny takes back in stage 2 what was received, for an orderer that was followed contradicts it, and gives what stage 3 is
// to do, if anything. Where enough orderers have vouched for all of it, that one lies and the block stays: a liar would
// have it fetched and judged again each time that it is followed. Only what came after the lie is dropped.
func (p *pipeline) deny(why error) *done {
	l := p.chain.ledger
	if l.next.Tx > 0 && p.words.decided(l.next) {
		log.Errorf("[%s] what is said of block [%d] is not so, its %d transactions stay: %s", l.channelID, l.next.Block, l.next.Tx, why)
		p.rebase(0, p.words.stayed)
		return nil
	}
	l.rewind()
	p.reached = newBounds(l.bundle.Load())
	p.validation, p.state = 0, 0
	p.rebase(1, p.words.rewound)
	return &done{at: l.next, distrust: why, run: p.base.Load()}
}

// rebase has all that is received from now on follow what stage 2 has now, after so many blocks more that were taken back.
func (p *pipeline) rebase(taken int, tell func(now *base)) {
	before, now := p.base.Load(), p.here()
	now.taken = before.taken + taken
	p.base.Store(now)
	tell(now)
	close(before.gone)
}

// here is where stage 2 is.
func (p *pipeline) here() *base {
	l := p.chain.ledger
	return &base{
		position: l.next, bundle: l.bundle.Load(), blockBundle: l.last.Load().bundle, bounds: p.reached, gone: make(chan struct{}),
	}
}

// discard drops an item that follows what was taken back.
func (p *pipeline) discard(j *job) {
	p.bytes.Release(j.weight)
	if j.applied != nil {
		close(j.applied)
	}
}

// settled leaves out of a group what is taken back within it: no client has been told of that.
func settled(group []done) []done {
	kept := group[:0]
	for _, d := range group {
		if d.distrust != nil {
			for n := len(kept); n > 0 && kept[n-1].header == nil && kept[n-1].distrust == nil; n = len(kept) {
				kept = kept[:n-1]
			}
		}
		kept = append(kept, d)
	}
	return kept
}

// dropOpen takes the open block off the disk, and says what clients were told too early.
func (p *pipeline) dropOpen(d *done) error {
	id := p.chain.ID()
	log.Errorf("[%s] block [%d] cannot be trusted and is taken back: %s", id, d.at.Block, d.distrust)
	if len(p.chain.open) > 0 {
		log.Errorf("[%s] %d of its transactions had been reported as committed, and are so no more unless they come again: %v", id, len(p.chain.open), p.chain.open)
	}
	p.chain.open = p.chain.open[:0]
	return p.chain.store.DropOpen()
}
