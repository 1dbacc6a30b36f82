package follow

import (
	"fmt"
	"time"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// errWithheld ends a stream whose orderer does not give what there is.
type errWithheld struct {
	block   uint64
	witness string        // the orderer that has sealed the block; empty: its time is up, whoever has it
	waited  time.Duration // without what was given back
	next    uint64        // the block that the peer waits for, which a witness does not choose
}

func (e errWithheld) Error() string {
	if e.witness == "" {
		return fmt.Sprintf("it withholds block [%d], which it has begun and does not seal (%s waited)", e.block, e.waited)
	}
	return fmt.Sprintf("it withholds block [%d], which orderer %s has sealed (%s waited)", e.block, e.witness, e.waited)
}

// progress judges whether an orderer gives what there is. Only time in which the peer waits for the orderer counts: a
// peer that is itself slow, or reads a long chain, suspects nobody. It has no clock: time is an argument.
type progress struct {
	// patience is how long a block may be overdue.
	patience time.Duration
	open     debt // the block that the orderer has begun
	claimed  debt // the newest block that another one has sealed
	witness  string
	begun    pace           // when that was claimed
	last     pace           // at the last claim of a newer block
	gains    bool           // the peer had received more blocks than others had sealed, since either
	next     chain.Position // what the peer receives next
}

// pace is how far a peer and its channel are at one time.
type pace struct {
	next   uint64 // block that the peer receives
	sealed uint64 // the newest block that another orderer has sealed
}

// gained reports whether the peer has received more blocks since that time than others have sealed.
func (p pace) gained(since pace) bool { return p.next-since.next > p.sealed-since.sealed }

// shareOfPatience is the most that one block gives back of the time that was waited, as a share of the patience.
const shareOfPatience = 5

// debt is a block that is owed.
type debt struct {
	owed   bool
	block  uint64
	waited time.Duration // since it is owed
	given  time.Duration // of that: given back for what has come meanwhile
	limit  time.Duration // of the rest
}

// counted is how much of the time that was waited counts.
func (d *debt) counted() time.Duration { return d.waited - d.given }

func (d *debt) overdue() bool { return d.owed && d.counted() > d.limit }

// received says what the peer receives next, and how long a block may stay open by the channel's configuration.
func (p *progress) received(next chain.Position, blockTime time.Duration) {
	// One that is far behind gets there, however long the link takes. One that stops has saved up nothing.
	if p.claimed.owed && p.gains && next.Block > p.next.Block {
		each := min(blockTime/2, p.patience/shareOfPatience)
		p.claimed.given = min(p.claimed.waited, p.claimed.given+each*time.Duration(next.Block-p.next.Block))
	}
	p.next = next
	for _, d := range []*debt{&p.open, &p.claimed} {
		d.owed = d.owed && d.block >= next.Block
	}
	if next.Tx > 0 && !p.open.owed {
		p.open = debt{owed: true, block: next.Block, limit: blockTime + p.patience}
	}
}

// claims says that another orderer has sealed a block. What it says while an earlier claim is open counts as one later,
// when it says it again: one that gives a block now and then must not gain time by it.
func (p *progress) claims(witness string, sealed uint64) {
	if sealed >= p.next.Block && !p.claimed.owed {
		p.claimed, p.witness = debt{owed: true, block: sealed, limit: p.patience}, witness
		p.begun = pace{p.next.Block, sealed}
		p.last, p.gains = p.begun, true
		return
	}
	// A witness that is behind the last one does not show what the channel has made since.
	if sealed <= p.last.sealed {
		return
	}
	// Many blocks at once do not pay for few afterwards, and one that is fast now and then may give too few in all.
	now := pace{p.next.Block, sealed}
	p.gains = now.gained(p.begun) && now.gained(p.last)
	p.last = now
}

// wait counts time in which the peer has waited for the orderer.
func (p *progress) wait(took time.Duration) error {
	for _, d := range []*debt{&p.open, &p.claimed} {
		if d.owed {
			d.waited += took
		}
	}
	switch {
	case p.claimed.overdue():
		return errWithheld{p.claimed.block, p.witness, p.claimed.counted(), p.next.Block}
	case p.open.overdue():
		return errWithheld{p.open.block, "", p.open.counted(), p.next.Block}
	}
	return nil
}
