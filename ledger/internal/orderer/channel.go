package orderer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/etcdraft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var (
	errNotConsenter  = errors.New("this orderer is not a consenter of the channel")
	errNoLeader      = errors.New("no Raft leader at the moment")
	errLeaderChanged = errors.New("the Raft leader changed: the transaction may or may not get ordered")
	errConfigured    = errors.New("the configuration has changed since this one was made")
	errConnection    = errors.New("lost the connection to the leader: the transaction may or may not get ordered")
)

// channel is one channel of this orderer: its chain, its part in consensus, and
// who waits for what. It is the consensus node's state machine and transport.
type channel struct {
	*chain.Chain
	name    string
	dir     string
	owner   *Node
	raft    atomic.Pointer[etcdraft.Node] // nil where Kafka orders, and while we are no consenter
	kafka   *kafka.Node                   // nil where Raft orders
	waiting *tracker
	signer  protoutil.Signer
	metrics *metrics

	group    atomic.Pointer[group]
	grouping sync.Mutex // who changes group
	ahead    *ahead     // under it; nil: we know of none

	// founders is how many consenters the channel began with. Their logs begin with all of them as voters.
	founders uint64
	hint     atomic.Pointer[string] // the leader's address; empty when that is us, or nobody
}

// consenter is what Raft and Kafka have in common.
type consenter interface {
	// Queued is how many proposals and messages wait.
	Queued() (proposals, messages int)
	Busy() float64
}

// consenter is our part in the consensus.
func (ch *channel) consenter() consenter {
	if ch.kafka != nil {
		return ch.kafka
	}
	if raft := ch.raft.Load(); raft != nil {
		return raft
	}
	return idle{}
}

// idle is the part of one who follows.
type idle struct{}

func (idle) Queued() (proposals, messages int) { return 0, 0 }
func (idle) Busy() float64                     { return 0 }

func (n *Node) openChannel(cfg nodeconfig.Channel) (*channel, error) {
	genesis, first, err := cfg.GenesisBlock()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(n.cfg.Data, "channels", cfg.Name)
	blocks, err := chain.Open(filepath.Join(dir, "blocks"), genesis, n.signer)
	if err != nil {
		return nil, err
	}
	return &channel{
		Chain: blocks, name: cfg.Name, dir: dir, owner: n, founders: uint64(len(first.Orderer.Consenters)), waiting: newTracker(), signer: n.signer, metrics: n.metrics,
	}, nil
}

// join takes our place among the consenters, if we have one.
func (ch *channel) join() error {
	ch.regroup()
	if ch.Bundle().Orderer.ConsensusType == channelconfig.Kafka {
		if err := ch.joinKafka(); err != nil {
			return err
		}
	} else if err := ch.openRaft(); err != nil {
		return err
	}
	ch.metrics.saturation(ch)
	return nil
}

// openRaft opens our part of the Raft log, where we are a consenter.
func (ch *channel) openRaft() error {
	g := ch.group.Load()
	if !ch.named() {
		log.Infof("[channel: %s] %s is not one of the %d consenters and follows them", ch.name, ch.owner.cfg.Name, len(g.members))
		return nil
	}
	o := ch.Bundle().Orderer
	cfg := etcdraft.Config{
		Channel: ch.name, ID: g.id, Dir: ch.logDir(g.id), CutInterval: ch.cutInterval,
		TickInterval: o.Raft.TickInterval, ElectionTick: o.Raft.ElectionTick, HeartbeatTick: o.Raft.HeartbeatTick, SnapshotInterval: o.Raft.SnapshotInterval,
		Pace: pace, MostPace: mostPace, Hold: hold, SpareHold: spareHold,
	}
	if channelconfig.WaitsForBlocks(o.Mode, o.MaxMessageCount) {
		cfg.Pace, cfg.MostPace, cfg.Hold, cfg.SpareHold = blockPace, blockPace, blockHold, blockSpareHold
	}
	if o.ConsensusType == channelconfig.Solo {
		cfg.TickInterval, cfg.ElectionTick, cfg.HeartbeatTick, cfg.SnapshotInterval = soloTick, 10, 1, soloSnapshot
		cfg.Voters = []uint64{1}
	} else if g.id <= ch.founders {
		for id := range ch.founders {
			cfg.Voters = append(cfg.Voters, id+1)
		}
	}
	raft, err := etcdraft.Open(cfg, ch, ch)
	if err != nil {
		return err
	}
	ch.raft.Store(raft)
	return nil
}

// logDir is where the Raft log of an id is: one who is added again has another id, and begins anew.
func (ch *channel) logDir(id uint64) string {
	if id <= max(ch.founders, 1) {
		return filepath.Join(ch.dir, "raft")
	}
	return filepath.Join(ch.dir, fmt.Sprintf("raft-%d", id))
}

const (
	soloTick     = 100 * time.Millisecond
	soloSnapshot = 16 << 20
	pace         = 4 * time.Millisecond
	mostPace     = 12 * time.Millisecond
	hold         = 5 * time.Millisecond
	spareHold    = 10 * time.Millisecond
	// Where a transaction waits for its block far longer.
	blockPace      = 20 * time.Millisecond
	blockHold      = 25 * time.Millisecond
	blockSpareHold = 50 * time.Millisecond
)

func (ch *channel) cutInterval() time.Duration { return ch.Bundle().Orderer.CutInterval() }

// submit brings a checked transaction into the log, here or through the leader.
func (ch *channel) submit(env *commonpb.Envelope, raw []byte, sequence uint64) *waiter {
	w := ch.waiting.add(raw)
	w.channel = ch
	settle := func(err error) { ch.waiting.settle(w.key, err) }
	var err error
	switch raft, g := ch.raft.Load(), ch.group.Load(); {
	case ch.kafka != nil:
		err = ch.kafka.Propose(consensus.Proposal{Tx: raw, Settle: settle})
	case raft == nil:
		err = errNotConsenter
	case raft.Leader() == g.id:
		err = raft.Propose(proposal(raw, settle))
	default:
		if remote := g.remotes[raft.Leader()]; remote != nil {
			err = remote.Submit(ch.name, sequence, env)
		} else {
			err = errNoLeader
		}
	}
	if err != nil {
		settle(err)
	}
	return w
}

func proposal(raw []byte, fail func(error)) consensus.Proposal {
	return consensus.Proposal{Tx: raw, Config: chain.HeaderType(raw) == int32(commonpb.HeaderType_CONFIG), Settle: fail}
}

// forwarded takes a transaction that another consenter has checked under the
// configuration of that sequence; refused is told when it does not get into the log.
func (ch *channel) forwarded(request *ordererpb.SubmitRequest, refused func(*ordererpb.SubmitResponse)) {
	raw, err := proto.Marshal(request.Payload)
	fail := func(err error) {
		key := sha256.Sum256(raw)
		refused(&ordererpb.SubmitResponse{Channel: ch.name, Status: statusOf(err), Info: hex.EncodeToString(key[:]) + " " + err.Error()})
	}
	bundle := ch.Bundle()
	switch {
	case err != nil || request.LastValidationSeq == bundle.Sequence:
	case chain.HeaderType(raw) == int32(commonpb.HeaderType_CONFIG):
		err = errConfigured
	default:
		var msg *protoutil.Message
		if msg, err = protoutil.OpenEnvelope(request.Payload); err == nil {
			err = checkTransaction(bundle, raw, msg)
		}
	}
	if raft := ch.raft.Load(); err == nil && raft == nil {
		err = errNotConsenter
	} else if err == nil {
		err = raft.Propose(proposal(raw, fail))
	}
	if err != nil {
		fail(err)
	}
}

// refusedByLeader is the other end of forwarded's answer.
func (ch *channel) refusedByLeader(response *ordererpb.SubmitResponse) {
	var key [sha256.Size]byte
	if len(response.Info) < 2*len(key) {
		return
	}
	if _, err := hex.Decode(key[:], []byte(response.Info[:2*len(key)])); err != nil {
		return
	}
	ch.waiting.settle(key, &leaderRefused{response.Status, strings.TrimSpace(response.Info[2*len(key):])})
}

// leaderRefused is the leader's answer.
type leaderRefused struct {
	status commonpb.Status
	info   string
}

func (e *leaderRefused) Error() string {
	if protoutil.Exhausted(e.info) {
		return e.info
	}
	return "the leader refused: " + e.info
}

// Apply implements consensus.StateMachine.
func (ch *channel) Apply(index uint64, entry *streampb.LogEntry) error {
	if err := ch.Chain.Apply(index, entry); err != nil {
		return err
	}
	if ch.Bundle() != ch.group.Load().bundle {
		ch.regroup()
	}
	ch.waiting.ordered(entry.Txs)
	ch.metrics.ordered(ch.name, len(entry.Txs), ch.Height())
	return nil
}

// LeaderChanged implements consensus.StateMachine: what the old leader had not
// answered, nobody will answer. While nobody leads nothing is handed on, so who waits when somebody is elected has asked
// the new one already.
func (ch *channel) LeaderChanged(before, leader uint64) {
	hint := ""
	g := ch.group.Load()
	if leader != g.id {
		hint = g.members[leader].address
	}
	ch.hint.Store(&hint)
	if before != 0 {
		ch.waiting.refuseAll(errLeaderChanged)
	}
	ch.metrics.leader(ch.name, leader != 0 && leader == g.id)
}

// leaderHint tells a client whom to ask the next time, which saves a forwarding hop;
// empty when it asked the right one.
func (ch *channel) leaderHint() string {
	if hint := ch.hint.Load(); hint != nil {
		return *hint
	}
	return ""
}

// Send implements consensus.Transport.
func (ch *channel) Send(to uint64, m *raftpb.Message) {
	if remote := ch.group.Load().remotes[to]; remote != nil {
		remote.Send(ch.name, m)
	}
}

// Change implements consensus.StateMachine.
func (ch *channel) Change(tx []byte) (channelconfig.Change, error) {
	_, _, change, err := ch.Next(tx)
	return change, err
}

// Members implements consensus.StateMachine.
func (ch *channel) Members() []uint64 { return ch.Chain.Members().IDs }
