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

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
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

// channel is one channel of this orderer: its chain, its consenter, and the transactions
// that wait for their answer. It is its consenter's host.
type channel struct {
	*chain.Chain
	name    string
	dir     string
	owner   *Node
	kind    *consensus.Kind
	taking  atomic.Pointer[membership] // nil while this orderer follows; part reads it
	waiting *tracker
	signer  protoutil.Signer
	metrics *metrics

	answers  answers // of the goroutine that fetches blocks
	turns    turns   // of the same, and of the sources that it asks: guarded by fetching
	fetching sync.Mutex
	asked    turns // of the goroutine that watches whether this orderer has been removed
	group    atomic.Pointer[group]
	grouping sync.Mutex // held to change group
	ahead    *ahead     // guarded by grouping; nil: none is known

	// founders is how many consenters the channel began with.
	founders uint64
	hint     atomic.Pointer[string] // the leader's address; empty when that is this orderer, or none leads
}

// membership is a consenter of this orderer's, and a channel that closes when the others have removed it.
type membership struct {
	consensus.Consenter
	removed chan struct{}
}

// part is this orderer's consenter; nil while it follows.
func (ch *channel) part() consensus.Consenter {
	if c := ch.taking.Load(); c != nil {
		return c.Consenter
	}
	return nil
}

// leader is the member that orders, as far as this orderer knows; 0: none, or all.
func (ch *channel) leader() uint64 {
	if c := ch.part(); c != nil {
		return c.Leader()
	}
	return 0
}

func (n *Node) openChannel(cfg nodeconfig.Channel) (*channel, error) {
	genesis, first, err := cfg.GenesisBlock()
	if err != nil {
		return nil, err
	}
	kind := kinds[first.Orderer.ConsensusType]
	if kind == nil {
		return nil, fmt.Errorf("channel %s: no orderer agrees by %q", cfg.Name, first.Orderer.ConsensusType)
	}
	dir := filepath.Join(n.cfg.Data, "channels", cfg.Name)
	ordered := kind.Log
	ordered.Kept = func(lost blockfile.Lost) error {
		return mends(kind, dir, n.foundersOf(&first.Orderer), lost)
	}
	if ordered.External {
		ordered.Check = checkAgain
	}
	blocks, err := chain.Open(filepath.Join(dir, "blocks"), genesis, n.signer, ordered)
	if err != nil {
		return nil, err
	}
	return &channel{
		Chain: blocks, name: cfg.Name, dir: dir, owner: n, kind: kind, founders: uint64(len(first.Orderer.Consenters)),
		waiting: newTracker(kind.Keeps), signer: n.signer, metrics: n.metrics,
	}, nil
}

// join takes this orderer's place among the consenters, if it has one.
func (ch *channel) join() error {
	ch.regroup()
	if err := ch.openPart(); err != nil {
		return err
	}
	ch.metrics.saturation(ch)
	return nil
}

// openPart opens the consenter, where this orderer has one.
func (ch *channel) openPart() error {
	g := ch.group.Load()
	if !ch.named() {
		log.Infof("[channel: %s] %s is not one of the %d consenters and follows them", ch.name, ch.owner.cfg.Name, len(g.members))
		return ch.noteFollowing()
	}
	if err := unmarkFollower(ch.dir); err != nil {
		return err
	}
	consenter, err := ch.kind.Open(consensus.Settings{
		Channel: ch.name, ID: g.id, Founders: ch.founders, Dir: ch.partDir(g.id),
		Bundle: ch.Bundle, Signer: ch.signer, Certificate: ch.owner.certificate,
		Unpaced: ch.owner.cfg.LikeFabric, VolatileVotes: ch.owner.cfg.VolatileVotes,
	}, ch)
	if err != nil {
		return err
	}
	ch.taking.Store(&membership{consenter, make(chan struct{})})
	return nil
}

// noteFollowing marks the folder of an orderer that follows from the first block on.
func (ch *channel) noteFollowing() error {
	if ch.kind.Log.External || ch.Height() > 1 {
		return nil
	}
	if parts, err := partsIn(ch.kind, ch.dir); err != nil || len(parts) > 0 {
		return err
	}
	return markFollower(ch.dir)
}

// partDir is the folder of a consenter's files. A consenter that is added again has another id, and begins anew.
func (ch *channel) partDir(id uint64) string {
	folder := ch.kind.Folder
	if id > max(ch.founders, 1) {
		folder = fmt.Sprintf("%s-%d", folder, id)
	}
	return filepath.Join(ch.dir, folder)
}

// submit brings a checked transaction into the log, here or through the leader.
func (ch *channel) submit(env *commonpb.Envelope, raw []byte, sequence uint64) *waiter {
	w := ch.waiting.add(raw)
	w.channel = ch
	settle := func(err error) { ch.waiting.settle(w, err) }
	err := ch.propose(raw, sequence, settle)
	if errors.Is(err, consensus.ErrNotLeader) {
		if remote := ch.group.Load().remotes[ch.leader()]; remote != nil {
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

// propose hands a transaction to the consenter that was checked under the configuration of that sequence. A later one than at
// the start may allow what this node does not take.
func (ch *channel) propose(raw []byte, sequence uint64, settle func(error)) error {
	part := ch.part()
	if part == nil {
		return errNotConsenter
	}
	if most := ch.owner.maxMessage - messageSlack; len(raw)-envelopeBytes > most {
		return fmt.Errorf("message payload is %d bytes and %w %d bytes until this orderer is restarted", len(raw)-envelopeBytes, errTooLarge, most)
	}
	config := protoutil.HeaderType(raw) == int32(commonpb.HeaderType_CONFIG)
	return part.Submit(consensus.Proposal{Tx: raw, Config: config, Sequence: sequence, Settle: settle})
}

// forwarded takes a transaction that another consenter says it has checked under the
// configuration of that sequence; refused is told when it does not get into the log.
func (ch *channel) forwarded(request *ordererpb.SubmitRequest, refused func(*ordererpb.SubmitResponse)) {
	raw, err := proto.Marshal(request.Payload)
	fail := func(err error) {
		if err == nil {
			return // it is in the order already, where the one who forwards it sees it
		}
		refused(refusal(ch.name, raw, err))
	}
	bundle, kind := ch.Bundle(), protoutil.HeaderType(raw)
	switch {
	case err != nil:
	case kind < 0:
		err = fmt.Errorf("%w: it is not well-formed", protoutil.ErrMalformed)
	case kind == int32(commonpb.HeaderType_CONFIG) && request.LastValidationSeq != bundle.Sequence:
		err = errConfigured
	case request.LastValidationSeq != bundle.Sequence || !bundle.Orderer.Trust().Forwarded:
		err = checkForwarded(bundle, raw, request.Payload)
	}
	if err == nil {
		err = ch.propose(raw, bundle.Sequence, fail)
	}
	if err != nil {
		fail(err)
	}
}

// refusal names a transaction by its hash, as the one who has handed it on does.
func refusal(channel string, raw []byte, why error) *ordererpb.SubmitResponse {
	key := sha256.Sum256(raw)
	return &ordererpb.SubmitResponse{Channel: channel, Status: statusOf(why), Info: hex.EncodeToString(key[:]) + " " + told(why)}
}

// mayRefuse reports whether the other end of a remote may say that a transaction does not get into the log: the leader may,
// where orderers do not lie. Where some may, one that leaves learns nothing of what it has handed on, and its clients ask others.
func (ch *channel) mayRefuse(by *cluster.Remote) bool {
	g, leader := ch.group.Load(), ch.leader()
	return ch.Bundle().Orderer.Trust().Forwarded && (g.remotes[leader] == by || g.parting[leader] == by)
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
	ch.waiting.refuseOne(key, &leaderRefused{refusalOf(response.Status), strings.TrimSpace(response.Info[2*len(key):])})
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

// Apply implements consensus.Host. It answers those who wait, unless the log is external: an entry of such a log may be
// read before it is acknowledged.
func (ch *channel) Apply(first uint64, entries ...*streampb.LogEntry) error {
	if err := ch.Chain.Apply(first, entries...); err != nil {
		return err
	}
	if ch.Bundle() != ch.group.Load().bundle {
		ch.regroup()
	}
	if !ch.kind.Log.External {
		for _, entry := range entries {
			ch.waiting.ordered(entry.Txs)
		}
	}
	return nil
}

// LeaderChanged implements consensus.Host: what the old leader has not
// answered stays without an answer. While no orderer leads nothing is handed on, so a transaction that waits when one is
// elected has been handed to the new one.
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

// leaderHint is the address that a client should ask the next time, which saves a forwarding hop;
// empty when it asked the right orderer.
func (ch *channel) leaderHint() string {
	if hint := ch.hint.Load(); hint != nil {
		return *hint
	}
	return ""
}

// Send implements consensus.Host.
func (ch *channel) Send(to uint64, m consensus.Message) {
	if remote := ch.group.Load().remotes[to]; remote != nil {
		remote.Send(ch.name, m)
	} else {
		m.Settle(false)
	}
}

// Knows implements consensus.Host.
func (ch *channel) Knows(id uint64) bool {
	g := ch.group.Load()
	_, is := g.members[id]
	return is && id != g.id
}

// Check implements consensus.Host.
func (ch *channel) Check(tx []byte) error { return checkAgain(ch.Bundle(), tx) }

// Refuse implements consensus.Host.
func (ch *channel) Refuse(tx [sha256.Size]byte, why error) { ch.waiting.refuse(tx, why) }

// Change implements consensus.Host.
func (ch *channel) Change(tx []byte) (channelconfig.Change, error) {
	_, _, change, err := ch.Next(tx)
	return change, err
}

// Members implements consensus.Host.
func (ch *channel) Members() []uint64 { return ch.Chain.Members().IDs }

// Registry implements consensus.Host.
func (ch *channel) Registry() prometheus.Registerer { return ch.metrics.registry }
