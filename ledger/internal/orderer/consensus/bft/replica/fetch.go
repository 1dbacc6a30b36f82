package replica

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// fetch takes the blocks over that others have sealed.
func (n *Node) fetch(ctx context.Context, cert bft.Certificate) error {
	height := binary.BigEndian.Uint64(cert.State[:8])
	log.Infof("[channel: %s] Fetching up to %d blocks, entry %d", n.settings.Channel, height, cert.Seq)
	before := n.host.Height()
	if err := n.host.CatchUp(ctx, height); err != nil {
		return err
	}
	n.learn(0) // no replaced key counts: the core is in the epoch
	n.seals.skip(n.host.Height())
	if n.host.Height() > height {
		return fmt.Errorf("the ledger has %d blocks, the checkpoint after entry %d has %d", n.host.Height(), cert.Seq, height)
	}
	state, err := n.stateOf(height)
	if err != nil {
		return err
	}
	if state != cert.State {
		return fmt.Errorf("block %d is another one than that of a quorum after entry %d", height-1, cert.Seq)
	}
	if err := n.host.Sync(); err != nil {
		return err
	}
	imported, cuts, err := n.brought(before, height)
	if err != nil {
		return err
	}
	n.tell(ctx, news{in: bft.Fetched{Seq: cert.Seq, Past: cuts}, imported: imported})
	return nil
}

// brought names the transactions of sealed blocks, as many of the last as are remembered, and the cuts of these blocks
// and of the one that was open here.
func (n *Node) brought(from, to uint64) (txs, cuts []bft.Digest, err error) {
	for number := to; number > from && len(txs) < kept; number-- {
		block, err := n.host.Block(number - 1)
		if err != nil {
			return nil, nil, err
		}
		for _, tx := range slices.Backward(block.Data.GetData()) {
			txs = append(txs, bft.TxDigest(tx))
		}
		cuts = append(cuts, bft.TxDigest(cutOf(number-1)))
	}
	slices.Reverse(txs)
	return txs, append(cuts, bft.TxDigest(cutOf(from))), nil
}
