package replica

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/pb/commonpb"
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
	imported, cuts, err := n.brought(ctx, before, height)
	if err != nil {
		return err
	}
	n.tell(ctx, news{in: bft.Fetched{Seq: cert.Seq, Past: cuts}, imported: imported})
	return nil
}

// brought names the transactions of sealed blocks, as many of the last as are remembered, and the cuts of these blocks
// and of the one that was open here.
func (n *Node) brought(ctx context.Context, from, to uint64) (txs, cuts []bft.Digest, err error) {
	txs, first, err := n.newest(ctx, from, to, math.MaxInt)
	for number := first; number < to; number++ {
		cuts = append(cuts, bft.TxDigest(cutOf(number)))
	}
	return txs, append(cuts, bft.TxDigest(cutOf(from))), err
}

// newest names the transactions of sealed blocks, as many of the last as are remembered, from the first block that it has read
// on. One that was ordered again is named where it came last. It reads a block more than most bytes of transactions. An error
// is of the block before the first, or of ctx.
func (n *Node) newest(ctx context.Context, from, to uint64, most int) (txs []bft.Digest, first uint64, err error) {
	named := map[bft.Digest]bool{}
	for first = to; first > from && len(txs) < kept && most >= 0; first-- {
		if err = ctx.Err(); err != nil {
			break
		}
		var block *commonpb.Block
		if block, err = n.host.Block(first - 1); err != nil {
			break
		}
		for _, tx := range slices.Backward(block.Data.GetData()) {
			most -= len(tx)
			if digest := bft.TxDigest(tx); !named[digest] {
				named[digest] = true
				txs = append(txs, digest)
			}
		}
	}
	slices.Reverse(txs)
	return txs, first, err
}

// mostRecalled is how many bytes of transactions are read at start: what is remembered of them at 4 KiB each. Where they are
// larger, or come again, fewer are known than to those who have run for longer.
const mostRecalled = kept * 4 << 10

// recallOrdered remembers what sealed blocks have. It may be brought here again, and this replica would wait for it, and give
// up leaders who know better. What the open block has is applied again. A ledger may go on beside a block that it cannot read.
// An error is that ctx has ended.
func (n *Node) recallOrdered(ctx context.Context) error {
	began := time.Now()
	txs, first, err := n.newest(ctx, 1, n.host.Height(), mostRecalled)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err != nil {
		log.Warnf("[channel: %s] What is in blocks below [%d] may be ordered again: %s", n.settings.Channel, first, err)
	}
	n.oracle.remember(txs)
	log.Infof("[channel: %s] The last %d transactions are known again, after %s", n.settings.Channel, min(len(txs), kept), time.Since(began).Round(time.Millisecond))
	return nil
}
