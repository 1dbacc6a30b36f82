package replica

import (
	"errors"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// submit takes a transaction that the orderer has checked, and those that wait behind it.
func (n *Node) submit(p consensus.Proposal) {
	n.intake.Taken(p)
	for waits, taken := true, 0; waits; taken++ {
		digest := bft.TxDigest(p.Tx)
		n.oracle.checked(digest, p)
		if n.oracle.Known(digest) {
			n.settleLater(p)
		} else {
			for _, r := range n.take(bft.Submit{Tx: p.Tx}).Refused {
				if r.Tx == digest { // a step may refuse others that wait, too
					p.Settle(refusal(r.Reason))
				}
			}
		}
		if taken == batched {
			return
		}
		p, waits = n.intake.Next()
	}
}

// settleLater answers for a transaction that is known to be ordered: by a step before, whose records may not be durable yet.
func (n *Node) settleLater(p consensus.Proposal) {
	n.disk.put(bft.Effects{Settle: func() { p.Settle(nil) }})
}

// refusal is the reason as the orderer's clients know it.
func refusal(reason error) error {
	if errors.Is(reason, bft.ErrOverload) {
		return consensus.ErrOverload
	}
	return reason
}
