package follow

import (
	"fmt"
	"time"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
)

// errWithheld ends a stream whose orderer does not give what there is.
type errWithheld struct {
	block   uint64
	witness string // the orderer that has sealed the block; empty: its time is up, whoever has it
	waited  time.Duration
	next    uint64 // the block that the peer waits for, which a witness does not choose
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
	from     uint64         // what the peer received next when that was claimed
	newest   uint64         // block that has been claimed since then
	gains    bool           // the peer had received more blocks since then than others had sealed, at the last claim
	next     chain.Position // what the peer receives next
}

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

func (d *debt) overdue() bool { return d.owed && d.waited-d.given > d.limit }

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
		p.from, p.newest, p.gains = p.next.Block, sealed, true
		return
	}
	p.newest = max(p.newest, sealed)
	p.gains = p.next.Block-p.from > p.newest-p.claimed.block
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
		return errWithheld{p.claimed.block, p.witness, p.claimed.waited, p.next.Block}
	case p.open.overdue():
		return errWithheld{p.open.block, "", p.open.waited, p.next.Block}
	}
	return nil
}
