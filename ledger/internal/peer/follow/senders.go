package follow

import (
	"maps"

	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// senders says which orderer sent a block, for blocks that may still be taken back. A seal is checked after the peer
// has gone on to the next block, and perhaps to another orderer.
type senders map[uint64]string

// several stands for the senders of a block that did not come from one orderer as a whole. None of them can be blamed.
const several = ""

// note says that an orderer sent a batch, whose first item belongs at that position.
func (s senders) note(address string, at chain.Position, batch *streampb.Batch) {
	begins := true // what comes next is the first of a block here
	for _, item := range batch.Items {
		if begins {
			s.share(address, at)
		}
		if begins = item.GetSeal() != nil; begins {
			at = chain.Position{Block: at.Block + 1}
		} else {
			at.Tx++
		}
	}
	if batch.Word != nil && at.Tx > 0 && begins { // a word may have the open block taken back, as a seal does
		s.share(address, at)
	}
}

// share notes who sent a part of a block. The first part of a block that is not known was on disk at start.
func (s senders) share(address string, at chain.Position) {
	if sender, known := s[at.Block]; !known && at.Tx == 0 {
		s[at.Block] = address
	} else if sender != address {
		s[at.Block] = several
	}
}

// forget drops the blocks below height, which are sealed.
func (s senders) forget(height uint64) {
	maps.DeleteFunc(s, func(block uint64, _ string) bool { return block < height })
}

// takenBack gives who sent all of that block, or several, and drops it with all that followed it.
func (s senders) takenBack(block uint64) string {
	sender := s[block]
	maps.DeleteFunc(s, func(other uint64, _ string) bool { return other >= block })
	return sender
}
