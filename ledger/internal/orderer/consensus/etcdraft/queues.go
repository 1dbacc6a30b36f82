package etcdraft

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// show adds the series of what waits: for the goroutine that steps, and for a majority. That goroutine writes and applies
// as well, so there is no queue before these.
func (n *Node) show() {
	registry := n.host.Registry()
	consensus.ShowWaits(registry, n.cfg.Channel, "proposals", n.intake.Stands)
	consensus.ShowWaits(registry, n.cfg.Channel, "messages", n.messages.Stands)
	consensus.ShowQueue(registry, n.cfg.Channel, "replicate", n.replicating.Stands)
}

// replicating counts the entries that this leader has appended, until a majority has them on disk. It is of the run
// goroutine, but for Stands.
type replicating struct {
	consensus.Tally
	from, to uint64 // what waits is after from, up to to
}

func (r *replicating) appended(entries []*raftpb.Entry) {
	if r.from == r.to {
		r.from = entries[0].GetIndex() - 1
	}
	r.to = entries[len(entries)-1].GetIndex()
	r.Put(len(entries))
}

// committed may be told of entries of leaders before as well.
func (r *replicating) committed(entries []*raftpb.Entry) {
	if len(entries) > 0 {
		r.upTo(min(r.to, entries[len(entries)-1].GetIndex()))
	}
}

// deposed is for a leader that leads no more: it does not wait for what it has appended.
func (r *replicating) deposed() { r.upTo(r.to) }

func (r *replicating) upTo(index uint64) {
	if index > r.from {
		r.Begin(int(index - r.from))
		r.from = index
	}
}
