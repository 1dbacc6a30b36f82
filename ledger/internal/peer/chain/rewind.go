package chain

import (
	"errors"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
)

// ErrRewound says that the open block was taken back, because its seal does not verify: what
// was received has to be fetched again, from Position on, best from another orderer.
var ErrRewound = errors.New("the block's seal cannot be trusted: the block was taken back")

// base is what items in the pipeline follow. A new one makes those in it stale.
type base struct {
	position Position
	bundle   *channelconfig.Bundle
	gone     chan struct{} // closes when there is a new one
}

// rejoin takes over what was taken back since the last item; of the goroutine that receives.
func (p *pipeline) rejoin() bool {
	now := p.base.Load()
	if now == p.known {
		return false
	}
	p.known, p.position, p.bundle, p.blockBundle, p.config = now, now.position, now.bundle, now.bundle, nil
	p.bounds = newBounds(now.bundle)
	return true
}

// rewind takes the open block back in stage 2 and gives what stage 3 is to do.
func (p *pipeline) rewind(why error) done {
	l := p.chain.ledger
	l.rewind()
	now := &base{position: l.next, bundle: l.bundle.Load(), gone: make(chan struct{})}
	before := p.base.Swap(now)
	p.words.rewound(now)
	close(before.gone)
	return done{at: l.next, distrust: why}
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
