package etcdraft

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// accepting is the queue of proposals while there is room in flight and it is time for the next entry, else nothing.
func (n *Node) accepting() <-chan Proposal {
	if !n.leads() {
		return n.proposals
	}
	if n.config != nil || n.proposed >= n.applied+entriesInFlight || !n.outbox.ready() {
		return nil
	}
	return n.proposals
}

// propose makes one entry of this transaction and those that wait behind it.
func (n *Node) propose(p Proposal) {
	n.taken(p)
	if p.Config {
		n.config = &p
		return
	}
	batch := []Proposal{p}
	entry := &streampb.LogEntry{Txs: [][]byte{p.Tx}}
	for size := len(p.Tx); n.config == nil && len(batch) < entryTxs && size < entryBytes; {
		select {
		case p = <-n.proposals:
			n.taken(p)
			if p.Config {
				config := p
				n.config = &config
				continue
			}
			batch = append(batch, p)
			entry.Txs = append(entry.Txs, p.Tx)
			size += len(p.Tx)
			continue
		default:
		}
		break
	}
	n.outbox.pacer.proposed(time.Now(), len(batch) > 1 || n.proposed > n.applied)
	if err := n.append(entry); err != nil {
		for _, p := range batch {
			p.Fail(err)
		}
	}
}

// proposeCut ends a block that has been open for its time.
func (n *Node) proposeCut() {
	armed := n.timed
	n.timed = 0
	if number, txs := n.sm.Open(); !n.leads() || txs == 0 || number != armed {
		return
	}
	// Dropped means that we lose the lead: the next leader has a timer of its own.
	_ = n.append(&streampb.LogEntry{Cut: true})
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
