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

const (
	// mostSettling bounds the bytes of transactions that wait to be settled.
	mostSettling = 64 << 20
	// settlingBytes is what each of them counts for besides its own bytes: what its client waits with.
	settlingBytes = 1 << 10
)

// settleLater answers for a transaction that is known to be ordered: by a step before, whose records may not be durable yet.
// Its bytes count until then: whoever has handed it on may keep it for the answer.
func (n *Node) settleLater(p consensus.Proposal) {
	settle, bytes := p.Settle, min(int64(len(p.Tx))+settlingBytes, mostSettling)
	if n.settling.Add(bytes) > mostSettling {
		n.settling.Add(-bytes)
		settle(consensus.ErrOverload)
		return
	}
	n.disk.put(bft.Effects{Settle: func() {
		n.settling.Add(-bytes)
		settle(nil)
	}})
}

// refusal is the reason as the orderer's clients know it.
func refusal(reason error) error {
	if errors.Is(reason, bft.ErrOverload) {
		return consensus.ErrOverload
	}
	return reason
}
