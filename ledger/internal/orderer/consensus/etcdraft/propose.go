package etcdraft

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// accepting is the queue of proposals while there is room in flight and it is time for the next entry, else nothing.
func (n *Node) accepting() <-chan consensus.Proposal {
	if n.leads() && (n.configs.next != nil || n.applied < n.configs.behind || n.proposed >= n.applied+entriesInFlight || !n.outbox.ready()) {
		return nil
	}
	return n.intake.C()
}

// propose makes one entry of this transaction and those that wait behind it, up to a configuration. Those that were checked
// by another configuration than the one in force are checked again: their clients may have been revoked since.
func (n *Node) propose(p consensus.Proposal) {
	n.intake.Taken(p)
	var batch []consensus.Proposal
	entry, sequence := &streampb.LogEntry{}, n.cfg.Sequence()
	for size, waits := 0, true; waits; p, waits = n.intake.Next() {
		if p.Config {
			n.configs.next = &p
			break
		}
		if p.Sequence != sequence {
			if err := n.host.Check(p.Tx); err != nil {
				p.Settle(err)
				continue
			}
		}
		batch, entry.Txs = append(batch, p), append(entry.Txs, p.Tx)
		if size += len(p.Tx); len(batch) >= entryTxs || size >= entryBytes {
			break
		}
	}
	if len(batch) == 0 {
		return
	}
	n.outbox.pacer.Proposed(time.Now(), len(batch) > 1 || n.proposed > n.applied)
	if err := n.append(entry); err != nil {
		for _, p := range batch {
			p.Settle(err)
		}
	}
}

// proposeCut ends a block that has been open for its time. The entry names the block: it may be agreed on late, when the
// block has ended, or after a second cut of the same block.
func (n *Node) proposeCut() {
	timed := n.block.Block()
	n.block.Stop()
	if number, txs := n.host.Open(); !n.leads() || txs == 0 || number != timed {
		return
	}
	// Dropped means that we lose the lead: the next leader has a timer of its own.
	_ = n.append(&streampb.LogEntry{Cut: true, CutBlock: timed})
}

func (n *Node) append(entry *streampb.LogEntry) error {
	if !n.leads() {
		return consensus.ErrNotLeader
	}
	data, err := proto.Marshal(entry)
	if err != nil {
		return err
	}
	if err := n.raft.Propose(data); err != nil {
		return fmt.Errorf("%w: %w", consensus.ErrNotLeader, err)
	}
	return nil
}
