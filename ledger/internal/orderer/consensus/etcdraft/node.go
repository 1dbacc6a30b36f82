// Package etcdraft lets the orderers of a channel agree on one log. A Node steps
// etcd's Raft core in one goroutine: messages, ticks and proposals go in; entries to
// the durable log, messages to the others and committed entries to the state machine
// come out. A single orderer ("solo") is a group of one.
package etcdraft

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
	"github.com/qioi/qioi/ledger/pb/streampb"
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
	queuedReports  = 64
	entryTxs       = 512
	entryBytes     = 1 << 20
	// entriesInFlight lets entries overlap in replication; what arrives meanwhile waits
	// and goes out as one larger entry.
	entriesInFlight = 4
	messageBytes    = 1 << 20
	inflightAppends = 256
)

// StateMachine is what the log is for. All methods but Sync are called from the node's own goroutine.
type StateMachine interface {
	// Apply takes committed entries, in order.
	Apply(index uint64, entry *streampb.LogEntry) error
	// Applied is how far the log is in sealed blocks, Height their number.
	Applied() chain.Applied
	Height() uint64
	// Open is the block that is not sealed yet.
	Open() (number uint64, txs int)
	// Sync makes what was applied durable, so that the log may forget it.
	Sync() error
	// CatchUp fetches sealed blocks from others until there are height of them.
	CatchUp(ctx context.Context, height uint64) error
	// LeaderChanged says who led and who leads now; 0 is nobody.
	LeaderChanged(before, leader uint64)
	// Change says what a configuration transaction would do to the members, or why it cannot come into force.
	Change(tx []byte) (channelconfig.Change, error)
	// Members are the ids of the members after the last configuration that was applied.
	Members() []uint64
}

// Transport carries messages to the other orderers. It never blocks and may lose messages.
type Transport interface {
	Send(to uint64, m *raftpb.Message)
}

// Config is how a channel's log is kept.
type Config struct {
	Channel          string
	ID               uint64
	Voters           []uint64 // of a new group; none: this node joins one
	Dir              string
	TickInterval     time.Duration
	ElectionTick     int
	HeartbeatTick    int
	SnapshotInterval int                  // bytes of log between two snapshots
	CutInterval      func() time.Duration // how long a block may stay open
	Pace             time.Duration        // between two entries while transactions come in crowds; 0: none
	MostPace         time.Duration        // the same where entries take long
	Hold             time.Duration        // that a message without entries may wait for one with; 0: none
	SpareHold        time.Duration        // that entries may wait for more on the way to a follower that no majority needs; 0: none
}

// Node is one orderer's part in a channel's consensus.
type Node struct {
	cfg    Config
	raft   *raft.RawNode
	log    *raftlog.Log
	sm     StateMachine
	outbox *outbox

	intake     *consensus.Intake
	messages   chan *raftpb.Message
	reports    chan report
	leader     atomic.Uint64
	saturation ops.Saturation

	// Of the run goroutine:
	applied  uint64 // applied is the last applied entry
	proposed uint64 // proposed is the last entry that this leader has appended
	block    *consensus.BlockTimer
	syncer   *consensus.Syncer
	snapshot place // snapshot is what the sync under way is for
	configs  configs
	roll     roll
}

type report struct {
	to       uint64
	snapshot bool
	ok       bool
}

// Open recovers the node's log; Run starts it.
func Open(cfg Config, sm StateMachine, transport Transport) (*Node, error) {
	l, err := raftlog.Open(cfg.Dir, cfg.Voters)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: l, sm: sm,
		intake: consensus.NewIntake(), messages: make(chan *raftpb.Message, queuedMessages), reports: make(chan report, queuedReports),
		block: consensus.NewBlockTimer(cfg.CutInterval), syncer: consensus.NewSyncer(cfg.SnapshotInterval, sm.Sync),
		roll: roll{heard: map[uint64]uint64{}},
	}
	n.outbox, err = newOutbox(&n.cfg, transport, sm.Members)
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
	if err := n.sm.CatchUp(ctx, height); err != nil {
		return err
	}
	n.applied = snapshot.GetMetadata().GetIndex()
	// One who joins has blocks of others, and no log until it is sent a snapshot, which stands for all of them.
	if !raft.IsEmptySnap(snapshot) {
		if at := n.sm.Applied(); at.Index > 0 && at.Index-1 > n.applied {
			n.applied = at.Index - 1
		}
		if err := n.log.MarkCommitted(n.applied); err != nil {
			return err
		}
	}
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: n.cfg.ID, ElectionTick: n.cfg.ElectionTick, HeartbeatTick: n.cfg.HeartbeatTick,
		Storage: n.log.Memory, Applied: n.applied, MaxSizePerMsg: messageBytes, MaxInflightMsgs: inflightAppends,
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

// Leader is the leader's id as far as we know; 0 is nobody.
func (n *Node) Leader() uint64 { return n.leader.Load() }

// Queued is how many proposals and messages wait; at 4096 of either more are refused or lost.
func (n *Node) Queued() (proposals, messages int) { return n.intake.Len(), len(n.messages) }

// Busy is for how many seconds the node's goroutine has worked, fsync included, since it was opened.
func (n *Node) Busy() float64 { return n.saturation.Seconds() }

// Propose queues a transaction. It errs at once when we do not lead or too many wait.
func (n *Node) Propose(p consensus.Proposal) error {
	if n.Leader() != n.cfg.ID {
		return consensus.ErrNotLeader
	}
	return n.intake.Put(p)
}

// Step takes a message from another orderer. When too many wait it is lost: Raft repeats.
func (n *Node) Step(m *raftpb.Message) {
	select {
	case n.messages <- m:
	default:
	}
}

// ReportUnreachable says that messages to an orderer are being lost.
func (n *Node) ReportUnreachable(to uint64) { n.report(report{to: to}) }

// ReportSnapshot says whether a snapshot message left for an orderer.
func (n *Node) ReportSnapshot(to uint64, ok bool) { n.report(report{to: to, snapshot: true, ok: ok}) }

func (n *Node) report(r report) {
	select {
	case n.reports <- r:
	default: // Raft finds out by itself, a little later
	}
}

// Run keeps the node going until ctx ends; it returns an error when log or ledger fail.
func (n *Node) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.start(ctx); err != nil {
		return ignoreEnd(ctx, err)
	}
	ticker := time.NewTicker(n.cfg.TickInterval)
	defer ticker.Stop()
	n.saturation.Work()
	for {
		if err := n.handleReady(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
		n.saturation.Wait()
		var work func() // what there is to do
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			work = n.tick
		case m := <-n.messages:
			work = func() { n.step(m) }
		case p := <-n.accepting():
			work = func() { n.propose(p) }
		case <-n.block.C():
			work = n.proposeCut
		case <-n.outbox.paced():
			work = func() {} // accepting opens again
		case <-n.outbox.due():
			work = func() { n.outbox.sendDue(time.Now()) }
		case r := <-n.reports:
			work = func() { n.stepReport(r) }
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

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (n *Node) close() error {
	n.block.Stop()
	return errors.Join(n.outbox.close(), n.syncer.Close(), n.log.Close())
}

// step takes this message and those that wait behind it, so that they share one Ready.
func (n *Node) step(m *raftpb.Message) {
	for {
		n.roll.heard[m.GetFrom()] = n.roll.ticks
		n.outbox.spares.acknowledged(m)
		// An error means that the message is not for us or out of date: nothing to do about it.
		if err := n.raft.Step(m); err != nil {
			log.Debugf("[channel: %s] message %s from %d: %s", n.cfg.Channel, m.GetType(), m.GetFrom(), err)
		}
		select {
		case m = <-n.messages:
		default:
			return
		}
	}
}

func (n *Node) stepReport(r report) {
	switch {
	case !r.snapshot:
		delete(n.roll.heard, r.to)
		n.outbox.unreachable(r.to)
		n.raft.ReportUnreachable(r.to)
	case r.ok:
		n.raft.ReportSnapshot(r.to, raft.SnapshotFinish)
	default:
		n.raft.ReportSnapshot(r.to, raft.SnapshotFailure)
	}
}

func (n *Node) leads() bool { return n.leader.Load() == n.cfg.ID }
