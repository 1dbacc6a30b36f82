package replica

import (
	"container/list"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// kept is how many transactions are remembered, and verdicts at least.
const kept = 1 << 16

// ordered remembers the last kept transactions and no others, each from when it came last: a leader that lies may have some
// ordered again. So the end of the order alone says what is known, and a replica that has begun anew, and has read that end,
// knows the same as one that has run for longer. At start it reads no more than mostRecalled.
type ordered struct {
	has  map[bft.Digest]*list.Element
	came *list.List // came has the digests, the oldest first.
}

func newOrdered() *ordered { return &ordered{has: map[bft.Digest]*list.Element{}, came: list.New()} }

func (o *ordered) put(d bft.Digest) {
	if at := o.has[d]; at != nil {
		o.came.MoveToBack(at)
		return
	}
	o.has[d] = o.came.PushBack(d)
	if o.came.Len() > kept {
		delete(o.has, o.came.Remove(o.came.Front()).(bft.Digest))
	}
}
