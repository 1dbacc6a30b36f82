package etcdraft

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// The members change by a configuration transaction, which is alone in its entry of the log, and that entry is
// Raft's change of its voters as well: what the chain says and what Raft counts change at one place of the order.
// It is proposed when all before it is applied, so that what the leader checks it against is what it will
// stand behind. Once it is applied a snapshot is taken there, so that a node that starts from a snapshot starts with the
// voters of that place, and a newcomer, whose log is empty, is always sent one that names it.

// votes reports whether this node is a member.
func (n *Node) votes() bool {
	_, is := n.raft.Status().Config.Voters.IDs()[n.cfg.ID]
	return is
}

// configs are the configurations that are not in force yet.
type configs struct {
	// behind is the entry that must be applied before a transaction is proposed: a configuration, or a new leader's first
	// entry, before which the log may have one.
	behind  uint64
	next    *consensus.Proposal // next waits until all before it is applied
	unheard *consensus.Proposal // unheard is one that too few were alive for when the leader was new
	voices  int                 // voices is how many were alive then
}

// refuse answers the clients that wait.
func (c *configs) refuse(err error) {
	for _, p := range []*consensus.Proposal{c.next, c.unheard} {
		if p != nil {
			p.Settle(err)
		}
	}
	*c = configs{}
}

// roll is whom this node has heard of, in ticks of its clock.
type roll struct {
	ticks   uint64
	elected uint64            // elected is when the leader changed
	heard   map[uint64]uint64 // heard is when another one last sent something
}

// proposeConfig proposes the waiting configuration, if it is time for it. It reports whether it did anything.
func (n *Node) proposeConfig() bool {
	c := &n.configs
	if c.unheard != nil && c.next == nil && (!n.young() || len(n.alive()) > c.voices) {
		c.next, c.unheard = c.unheard, nil
	}
	if c.next == nil || n.leads() && n.proposed > n.applied {
		return false
	}
	p := c.next
	c.next = nil
	if !n.leads() {
		p.Settle(consensus.ErrNotLeader)
		return true
	}
	err := n.appendConfig(p.Tx)
	if errors.Is(err, ErrQuorumLoss) && c.unheard == nil && n.young() {
		// Only those that elected this leader have been heard of: the others have an election's time to answer. Transactions do not
		// wait for that, nor does a second configuration, which is judged by the members that are alive now.
		c.unheard, c.voices = p, len(n.alive())
		return false
	}
	if err != nil {
		p.Settle(err)
		return true
	}
	c.behind = n.proposed + 1
	return true
}

// young reports whether this leader has led for an election's time at most.
func (n *Node) young() bool { return n.roll.ticks-n.roll.elected <= uint64(n.cfg.Raft.ElectionTick) }

func (n *Node) appendConfig(tx []byte) error {
	change, err := n.host.Change(tx)
	if err != nil {
		return err
	}
	if err := n.keepsQuorum(change); err != nil {
		return err
	}
	entry := &streampb.LogEntry{Txs: [][]byte{tx}}
	cc := &raftpb.ConfChange{}
	switch {
	case change.Added != 0:
		cc.Type, cc.NodeId = raftpb.ConfChangeAddNode.Enum(), proto.Uint64(change.Added)
	case change.Removed == n.cfg.ID, change.Rotated == n.cfg.ID && len(n.alive()) > 1:
		n.handOver()
		return ErrHandsOver
	case change.Removed != 0:
		cc.Type, cc.NodeId = raftpb.ConfChangeRemoveNode.Enum(), proto.Uint64(change.Removed)
	default:
		return n.append(entry)
	}
	if cc.Context, err = proto.Marshal(entry); err != nil {
		return err
	}
	if err := n.raft.ProposeConfChange(cc); err != nil {
		return fmt.Errorf("%w: %w", consensus.ErrNotLeader, err)
	}
	return nil
}

// alive are the members, this leader among them, that have been heard of within an election's time.
func (n *Node) alive() (ids []uint64) {
	for id := range n.raft.Status().Config.Voters.IDs() {
		at, heard := n.roll.heard[id]
		if id == n.cfg.ID || heard && n.roll.ticks-at <= uint64(n.cfg.Raft.ElectionTick) {
			ids = append(ids, id)
		}
	}
	return ids
}

// keepsQuorum refuses, as Fabric does, a change after which the members that are alive could order nothing. Where
// the new group could bear no failure anyway, only a removal is checked.
func (n *Node) keepsQuorum(change channelconfig.Change) error {
	alive, size := n.alive(), len(n.raft.Status().Config.Voters.IDs())
	without := func(id uint64) {
		alive = slices.DeleteFunc(alive, func(other uint64) bool { return other == id })
	}
	switch {
	case change.Added != 0:
		size++
	case change.Rotated != 0:
		without(change.Rotated) // it may be away until it has its certificate
	case change.Removed != 0:
		without(change.Removed)
		size--
	default:
		return nil
	}
	if len(alive) >= size/2+1 || change.Removed == 0 && size <= 2 {
		return nil
	}
	return fmt.Errorf("%w: %w: %d of the %d consenters that there would be are alive, %d are needed",
		channelconfig.ErrInvalid, ErrQuorumLoss, len(alive), size, size/2+1)
}

// handOver gives the lead to the member that is alive and has most of the log.
func (n *Node) handOver() {
	var to, match uint64
	alive := n.alive()
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, progress tracker.Progress) {
		if id != n.cfg.ID && slices.Contains(alive, id) && (to == 0 || progress.Match > match) {
			to, match = id, progress.Match
		}
	})
	if to != 0 {
		log.Infof("[channel: %s] This leader is to leave or to change its certificate: %d takes over", n.cfg.Channel, to)
		n.raft.TransferLeader(to)
	}
}

// applyMembership applies an entry that changes the members.
func (n *Node) applyMembership(e *raftpb.Entry) error {
	var cc raftpb.ConfChange
	var entry streampb.LogEntry
	if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
		return fmt.Errorf("log entry %d: %w", e.GetIndex(), err)
	}
	if err := protoutil.Unmarshal(cc.GetContext(), &entry); err != nil {
		return fmt.Errorf("log entry %d: %w", e.GetIndex(), err)
	}
	n.outbox.sendHeld() // a member that is removed has to hear that this entry is committed
	if err := n.host.Apply(e.GetIndex(), &entry); err != nil {
		return fmt.Errorf("log entry %d: %w", e.GetIndex(), err)
	}
	conf := n.raft.ApplyConfChange(&cc)
	n.applied = e.GetIndex()
	voters, members := slices.Sorted(slices.Values(conf.GetVoters())), slices.Sorted(slices.Values(n.host.Members()))
	if at := n.host.Applied(); at.Index != e.GetIndex() || !slices.Equal(voters, members) {
		return fmt.Errorf("log entry %d makes voters of %v, the chain, applied to %d, members of %v: log and ledger do not belong together",
			e.GetIndex(), voters, at.Index, members)
	}
	log.Infof("[channel: %s] Applied config change %s %d, current nodes in channel: %v", n.cfg.Channel, cc.GetType(), cc.GetNodeId(), voters)
	if err := n.host.Sync(); err != nil {
		return err
	}
	if err := n.log.Compact(e.GetIndex(), n.host.Height(), conf); err != nil {
		return err
	}
	if !n.votes() {
		return consensus.ErrRemoved
	}
	return nil
}
