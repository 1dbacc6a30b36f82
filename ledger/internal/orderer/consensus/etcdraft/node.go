// Package etcdraft lets the orderers of a channel agree on one log. A Node steps
// etcd's Raft core in one goroutine: messages, ticks and proposals go in; entries to
// the durable log, messages to the others and committed entries to the state machine
// come out. A single orderer ("solo") is a group of one.
package etcdraft

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
)

var log = ops.Logger("orderer.consensus.etcdraft")

// Why a proposal was not accepted.
var (
	ErrHandsOver = errors.New("this concerns the leader, which hands over to another one first: send it again")
	// ErrQuorumLoss: too few consenters are alive for what the configuration asks for.
	ErrQuorumLoss = errors.New("configuration will result in quorum loss")
)

// Bounds of queues and entries.
const (
	queuedMessages = 4096
	entryTxs       = 512
	entryBytes     = 1 << 20
	// entriesInFlight lets entries overlap in replication; what arrives meanwhile waits
	// and goes out as one larger entry.
	entriesInFlight = 4
	messageBytes    = 1 << 20
	// inflightAppends and inflightBytes are the most that is on the way to one follower; one message more may begin
	// below the bytes. They bound what waits at its door and at ours too.
	inflightAppends = 256
	inflightBytes   = 16 << 20
)

// Node is one orderer's part in a channel's consensus.
type Node struct {
	cfg    Config
	raft   *raft.RawNode
	log    *raftlog.Log
	host   consensus.Host
	outbox *outbox

	intake     *consensus.Intake
	messages   *consensus.Line[*raftpb.Message]
	reports    *reports
	leader     atomic.Uint64
	saturation ops.Saturation

	// Of the run goroutine:
	applied     uint64 // applied is the last applied entry
	proposed    uint64 // proposed is the last entry that this leader has appended; 0: none yet
	block       *consensus.BlockTimer
	syncer      *consensus.Syncer
	snapshot    place             // snapshot is what the sync under way is for
	batch       []*raftpb.Message // batch is those that are stepped together
	replicating replicating
	configs     configs
	roll        roll
}

// Open recovers the node's log; Run starts it.
func Open(cfg Config, host consensus.Host) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("raft of channel %s: %w", cfg.Channel, err)
	}
	l, err := raftlog.Open(cfg.Dir, cfg.Voters)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: l, host: host,
		intake: consensus.NewIntake(), messages: consensus.NewLine[*raftpb.Message](queuedMessages), reports: newReports(),
		block: consensus.NewBlockTimer(cfg.CutInterval), syncer: consensus.NewSyncer(cfg.Raft.SnapshotInterval, host.Sync),
		roll: roll{heard: map[uint64]uint64{}},
	}
	n.outbox, err = newOutbox(&n.cfg, n.transmit, host.Members)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return n, nil
}

// start makes the Raft core go on where the blocks on disk end.
func (n *Node) start(ctx context.Context) error {
	snapshot, err := n.log.Memory.Snapshot()
	if err != nil {
		return err
	}
	var height uint64
	if !raft.IsEmptySnap(snapshot) {
		if height, err = raftlog.Height(snapshot); err != nil {
			return err
		}
	}
	// We may have been stopped between taking a snapshot over and fetching its blocks.
	if err := n.host.CatchUp(ctx, height); err != nil {
		return err
	}
	n.applied = snapshot.GetMetadata().GetIndex()
	// A node that joins has fetched blocks, and no log until it is sent a snapshot, which stands for all of them.
	if !raft.IsEmptySnap(snapshot) {
		if at := n.host.Applied(); at.Index > 0 && at.Index-1 > n.applied {
			n.applied = at.Index - 1
		}
		if err := n.log.MarkCommitted(n.applied); err != nil {
			return err
		}
	}
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: n.cfg.ID, ElectionTick: n.cfg.Raft.ElectionTick, HeartbeatTick: n.cfg.Raft.HeartbeatTick,
		Storage: n.log.Memory, Applied: n.applied, MaxSizePerMsg: messageBytes, MaxInflightMsgs: inflightAppends, MaxInflightBytes: inflightBytes,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true, Logger: raftLogger{n.cfg.Channel},
	})
	if err != nil {
		return err
	}
	if voters := n.raft.Status().Config.Voters.IDs(); len(voters) == 1 && n.votes() {
		return n.raft.Campaign()
	}
	return nil
}

// Leader implements consensus.Consenter.
func (n *Node) Leader() uint64 { return n.leader.Load() }

// Queued implements consensus.Consenter: at 4096 of either more are refused or lost.
func (n *Node) Queued() (proposals, messages int) { return n.intake.Len(), n.messages.Len() }

// Busy implements consensus.Consenter; fsync counts as work.
func (n *Node) Busy() float64 { return n.saturation.Seconds() }

// Submit implements consensus.Consenter. It errs at once when we do not lead or too many wait.
func (n *Node) Submit(p consensus.Proposal) error {
	if !n.leads() {
		return consensus.ErrNotLeader
	}
	return n.intake.Put(p)
}

// Step implements consensus.Consenter. When too many messages wait one is lost: Raft repeats.
func (n *Node) Step(from uint64, payload []byte) error {
	m, err := parseMessage(payload)
	if err != nil {
		return status.Error(codes.InvalidArgument, "not a Raft message")
	}
	if from != 0 && m.GetFrom() != from {
		return status.Errorf(codes.PermissionDenied, "message from %d on the stream of consenter %d", m.GetFrom(), from)
	}
	if err := check(m); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	// Without TLS a sender may claim any id. A message to another id is too late: this orderer had that id before.
	if m.GetTo() != n.cfg.ID || !n.host.Knows(m.GetFrom()) {
		return nil
	}
	n.messages.Put(m)
	return nil
}

// transmit gives a message to the host. A snapshot's sender waits to hear whether it left.
func (n *Node) transmit(m *raftpb.Message) {
	out := consensus.Message{Payload: m}
	if m.GetType() == raftpb.MsgSnap {
		out.Sent = func(left bool) { n.reports.put(report{to: m.GetTo(), snapshot: true, ok: left}) }
	}
	n.host.Send(m.GetTo(), out)
}

// Unreachable implements consensus.Consenter.
func (n *Node) Unreachable(id uint64) { n.reports.put(report{to: id}) }

// Run implements consensus.Consenter.
func (n *Node) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, n.close()) }()
	defer endByFault(n.cfg.Channel, &err)
	if err := n.start(ctx); err != nil {
		return consensus.IgnoreEnd(ctx, err)
	}
	ticker := time.NewTicker(n.cfg.Raft.TickInterval)
	defer ticker.Stop()
	n.saturation.Work()
	for {
		if err := n.handleReady(ctx); err != nil {
			return consensus.IgnoreEnd(ctx, err)
		}
		n.saturation.Wait()
		var work func() // what there is to do
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			work = n.tick
		case m := <-n.messages.C():
			work = func() { n.take(m) }
		case p := <-n.accepting():
			work = func() { n.propose(p) }
		case <-n.block.C():
			work = n.proposeCut
		case <-n.outbox.paced():
			work = func() {} // accepting opens again
		case <-n.outbox.due():
			work = func() { n.outbox.sendDue(time.Now()) }
		case <-n.reports.filled:
			work = n.stepReports
		case ended := <-n.syncer.Done():
			work = func() { err = n.compact(n.syncer.End(ended)) }
		}
		n.saturation.Work()
		if work(); err != nil {
			return err
		}
	}
}

func (n *Node) tick() {
	n.roll.ticks++
	n.raft.Tick()
}

func (n *Node) close() error {
	n.block.Stop()
	return errors.Join(n.outbox.close(), n.syncer.Close(), n.log.Close())
}

// take steps this message and those that wait behind it, so that they share one Ready. While messages keep coming it leaves
// the rest for the next time: clock, log and ledger wait meanwhile.
func (n *Node) take(m *raftpb.Message) {
	n.batch = n.messages.Rest(append(n.batch, m))
	for stepped := 0; len(n.batch) > 0; n.batch = n.messages.Rest(n.batch) {
		for _, m := range n.batch {
			n.step(m)
		}
		stepped += len(n.batch)
		clear(n.batch)
		n.batch = n.batch[:0]
		if stepped >= queuedMessages {
			return
		}
	}
}

func (n *Node) step(m *raftpb.Message) {
	n.roll.heard[m.GetFrom()] = n.roll.ticks
	n.outbox.spares.acknowledged(m)
	// An error means that the message is not for us or out of date: nothing to do about it.
	if err := n.raft.Step(m); err != nil {
		log.Debugf("[channel: %s] message %s from %d: %s", n.cfg.Channel, m.GetType(), m.GetFrom(), err)
	}
}

func (n *Node) leads() bool { return n.leader.Load() == n.cfg.ID }
