package orderer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var (
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
	id      uint64
	node    consenter
	raft    *consensus.Node // nil where Kafka orders
	kafka   *kafka.Node     // nil where Raft orders
	waiting *tracker
	remotes map[uint64]*cluster.Remote
	members map[uint64]member
	signer  protoutil.Signer
	metrics *metrics
	hint    atomic.Pointer[string] // the leader's address; empty when that is us, or nobody
}

// consenter is what Raft and Kafka have in common.
type consenter interface {
	Run(ctx context.Context) error
	// Queued is how many proposals and messages wait.
	Queued() (proposals, messages int)
	Busy() time.Duration
}

// member is a consenter of the channel.
type member struct {
	address        string
	client, server []byte // TLS certificates, DER
}

func (n *Node) openChannel(cfg nodeconfig.Channel) (*channel, error) {
	genesis, _, err := cfg.GenesisBlock()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(n.cfg.Data, "channels", cfg.Name)
	blocks, err := chain.Open(filepath.Join(dir, "blocks"), genesis, n.signer)
	if err != nil {
		return nil, err
	}
	ch := &channel{Chain: blocks, name: cfg.Name, waiting: newTracker(), remotes: map[uint64]*cluster.Remote{}, signer: n.signer, metrics: n.metrics}
	if err := ch.join(n, filepath.Join(dir, "raft")); err != nil {
		return nil, errors.Join(fmt.Errorf("channel %s: %w", cfg.Name, err), blocks.Close())
	}
	return ch, nil
}

// join finds our place among the consenters and opens the log.
func (ch *channel) join(n *Node, dir string) error {
	o := ch.Bundle().Orderer
	if o.ConsensusType == channelconfig.Kafka {
		return ch.joinKafka()
	}
	cfg := consensus.Config{
		Channel: ch.name, ID: 1, Voters: []uint64{1}, Dir: dir, CutInterval: ch.cutInterval,
		TickInterval: o.Raft.TickInterval, ElectionTick: o.Raft.ElectionTick, HeartbeatTick: o.Raft.HeartbeatTick, SnapshotInterval: o.Raft.SnapshotInterval,
		Pace: pace, MostPace: mostPace, Hold: hold,
	}
	if o.Mode == channelconfig.Block {
		cfg.Pace, cfg.MostPace, cfg.Hold = blockPace, blockPace, blockHold
	}
	if o.ConsensusType == channelconfig.Solo {
		cfg.TickInterval, cfg.ElectionTick, cfg.HeartbeatTick, cfg.SnapshotInterval = soloTick, 10, 1, soloSnapshot
	} else {
		var err error
		if ch.members, err = membersOf(o.Consenters); err != nil {
			return err
		}
		if cfg.ID, err = ownID(ch.members, n); err != nil {
			return err
		}
		cfg.Voters = nil
		for id := range len(ch.members) {
			cfg.Voters = append(cfg.Voters, uint64(id)+1)
		}
	}
	ch.id = cfg.ID
	for id, m := range ch.members {
		if id == ch.id {
			continue
		}
		remote, err := n.remote(m, o.TLSRoots)
		if err != nil {
			return err
		}
		ch.remotes[id] = remote
	}
	var err error
	if ch.raft, err = consensus.Open(cfg, ch, ch); err != nil {
		return err
	}
	ch.node = ch.raft
	ch.metrics.saturation(ch)
	return nil
}

const (
	soloTick     = 100 * time.Millisecond
	soloSnapshot = 16 << 20
	pace         = 4 * time.Millisecond
	mostPace     = 12 * time.Millisecond
	hold         = 5 * time.Millisecond
	// In block mode a transaction waits for its block far longer.
	blockPace = 20 * time.Millisecond
	blockHold = 25 * time.Millisecond
)

func membersOf(consenters []*etcdraftpb.Consenter) (map[uint64]member, error) {
	out := map[uint64]member{}
	for i, c := range consenters {
		m := member{address: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
		for text, into := range map[*[]byte]*[]byte{&c.ClientTlsCert: &m.client, &c.ServerTlsCert: &m.server} {
			block, _ := pem.Decode(*text)
			if block == nil {
				return nil, fmt.Errorf("consenter %s: a TLS certificate cannot be read", m.address)
			}
			*into = block.Bytes
		}
		out[uint64(i)+1] = m
	}
	return out, nil
}

func ownID(members map[uint64]member, n *Node) (uint64, error) {
	for id, m := range members {
		if n.certificate != nil && bytes.Equal(m.server, n.certificate.Certificate[0]) || n.certificate == nil && m.address == n.cfg.KnownAs() {
			return id, nil
		}
	}
	return 0, fmt.Errorf("%s is not one of its %d consenters", n.cfg.Name, len(members))
}

func (ch *channel) cutInterval() time.Duration {
	if o := ch.Bundle().Orderer; o.Mode == channelconfig.Block {
		return o.BatchTimeout
	}
	return ch.Bundle().Orderer.VirtualBlockInterval
}

// submit brings a checked transaction into the log, here or through the leader.
func (ch *channel) submit(env *commonpb.Envelope, raw []byte, sequence uint64) *waiter {
	w := ch.waiting.add(raw)
	w.channel = ch
	settle := func(err error) { ch.waiting.settle(w.key, err) }
	var err error
	var leader uint64
	if ch.raft != nil {
		leader = ch.raft.Leader()
	}
	switch {
	case ch.kafka != nil:
		err = ch.kafka.Propose(kafka.Proposal{Tx: raw, Done: settle})
	case leader == ch.id:
		err = ch.raft.Propose(consensus.Proposal{Tx: raw, Fail: settle})
	case ch.remotes[leader] == nil:
		err = errNoLeader
	default:
		err = ch.remotes[leader].Submit(ch.name, sequence, env)
	}
	if err != nil {
		settle(err)
	}
	return w
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
	if err == nil {
		err = ch.raft.Propose(consensus.Proposal{Tx: raw, Fail: fail})
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
	ch.waiting.settle(key, fmt.Errorf("the leader refused: %s", response.Info[2*len(key):]))
}

// Apply implements consensus.StateMachine.
func (ch *channel) Apply(index uint64, entry *streampb.LogEntry) error {
	if err := ch.Chain.Apply(index, entry); err != nil {
		return err
	}
	ch.waiting.ordered(entry.Txs)
	ch.metrics.ordered(ch.name, len(entry.Txs), ch.Height())
	return nil
}

// LeaderChanged implements consensus.StateMachine: what the old leader had not
// answered, nobody will answer.
func (ch *channel) LeaderChanged(leader uint64) {
	hint := ""
	if leader != ch.id {
		hint = ch.members[leader].address
	}
	ch.hint.Store(&hint)
	ch.waiting.refuseAll(errLeaderChanged)
	ch.metrics.leader(ch.name, leader == ch.id)
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
	if remote := ch.remotes[to]; remote != nil {
		remote.Send(ch.name, m)
	}
}

// CatchUp implements consensus.StateMachine: it asks one orderer after the other
// until it has the blocks.
func (ch *channel) CatchUp(ctx context.Context, height uint64) error {
	for first := true; ch.Height() < height; first = false {
		if !first {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(catchUpPause):
			}
		}
		for id, remote := range ch.remotes {
			err := fetchBlocks(ctx, ch, remote.Conn(), height)
			if ch.Height() >= height {
				break
			}
			if err != nil && ctx.Err() == nil {
				log.Warnf("[channel: %s] blocks from orderer %d: %s", ch.name, id, err)
			}
		}
	}
	return nil
}

const catchUpPause = 50 * time.Millisecond
