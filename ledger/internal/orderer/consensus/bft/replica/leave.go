package replica

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// unasked is for how long nobody must ask a replica that was removed where the others are, before it leaves. One that does
// not know repeats that every quarter of a second, but may have to connect again, or to start again, before it can.
const unasked = 16 * resend

// takeLeave ends the part of a replica that has been removed. One that has voted on where its last epoch ends stays for as
// long as others ask for that: they may need its vote to go on. A liar may ask without end.
func (n *Node) takeLeave(v *bft.View, now bft.Time) error {
	if n.left == 0 {
		n.left = now
		n.leaving.Store(true)
	}
	voted := v.Applied >= v.Group.Epoch
	asked := max(n.left, v.Asked)
	if voted && now < asked+unasked && now < n.left+patience(&n.settings.Bundle().Orderer) {
		return nil
	}
	return consensus.ErrRemoved
}
