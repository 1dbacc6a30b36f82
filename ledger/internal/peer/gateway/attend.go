package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// Zyzzyva's orderers answer before they have agreed, and a client finds out itself what is decided. The gateway is that
// client: it hears the orderers' histories, and gives them certificates. What it finds out so only comes earlier than the
// SUCCESS of f+1 orderers, which counts as well.

const (
	// fastShare is which part of the time that a leader has the gateway waits for the histories of all orderers, before
	// those of a quorum will do. It is half as long as the orderers wait, who would all have to be woken.
	fastShare = 80
	// certifyAgain is when a certificate is shown again, at first and at most.
	certifyAgain, mostCertifyAgain = 500 * time.Millisecond, 4 * time.Second
	// attendAgain is when a connection that has ended is made again.
	attendAgain = time.Second
	// queuedCertificates is how many messages may wait for an orderer.
	queuedCertificates = 256
)

// proofs are a proof's names in metrics.
var proofs = map[bft.Proof]string{bft.ByAll: "all", bft.ByCertificate: "certificate", bft.ByWord: "word"}

// attendance is the client of a channel's orderers under one configuration.
type attendance struct {
	bundle *channelconfig.Bundle
	links  map[string]*link // by address
	ctx    context.Context
	cancel context.CancelFunc
	began  time.Time

	mu      sync.Mutex
	said    map[string]*streampb.OrderingGroup // by address: the newest
	group   *streampb.OrderingGroup            // what enough of them say; nil: too few have
	client  *zyzzyva.Client                    // of that group
	ids     map[string]bft.ID                  // by address
	waiting map[bft.Digest]chan bft.Proof
	timer   *time.Timer
}

func newAttendance(ctx context.Context, bundle *channelconfig.Bundle) *attendance {
	a := &attendance{
		bundle: bundle, links: map[string]*link{}, began: time.Now(), said: map[string]*streampb.OrderingGroup{},
		waiting: map[bft.Digest]chan bft.Proof{},
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// expect says by the channel when a transaction is decided. Forget ends that; it is called once. A nil attendance, one that
// does not know who orders, and one that waits for the transaction already, never say it.
func (a *attendance) expect(tx *commonpb.Envelope) (decided <-chan bft.Proof, forget func()) {
	if a == nil {
		return nil, func() {}
	}
	raw, err := proto.Marshal(tx)
	if err != nil {
		return nil, func() {}
	}
	digest := bft.TxDigest(raw)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == nil || a.waiting[digest] != nil {
		return nil, func() {}
	}
	proof := make(chan bft.Proof, 1)
	a.waiting[digest] = proof
	a.step(bft.Submit{Tx: raw})
	return proof, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.waiting[digest] == proof {
			delete(a.waiting, digest)
			a.client.Forget(digest)
		}
	}
}

// leader is the address of the orderer that leads, as far as the client has heard.
func (a *attendance) leader() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for address, id := range a.ids {
		if id == a.client.Leader() {
			return address
		}
	}
	return ""
}

// step steps the client. The caller holds the lock; so for those below.
func (a *attendance) step(in bft.Input) {
	effects := a.client.Step(time.Since(a.began)+1, in)
	for _, out := range effects.Send {
		if zyzzyva.FromClient(out.Message) { // the transactions go by Broadcast, which says why one is refused
			a.send(out)
		}
	}
	for _, accepted := range effects.Accepted {
		if proof := a.waiting[accepted.Tx]; proof != nil {
			proof <- accepted.How
			delete(a.waiting, accepted.Tx)
		}
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if effects.Deadline != 0 {
		client := a.client
		a.timer = time.AfterFunc(effects.Deadline-time.Since(a.began), func() { a.tick(client) })
	}
}

func (a *attendance) tick(client *zyzzyva.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == client && a.ctx.Err() == nil {
		a.step(bft.Tick{})
	}
}

// send queues a message, or loses it where too many wait.
func (a *attendance) send(out bft.Outgoing) {
	for address, l := range a.links {
		if a.ids[address] == out.To {
			select {
			case l.out <- zyzzyva.Encode(out.Message):
			default:
			}
		}
	}
}

// hear takes what an orderer says, which is no more at once than an honest one does.
func (a *attendance) hear(address string, said *streampb.Said) error {
	if n := len(said.Messages); n > protoutil.MostSaid {
		return fmt.Errorf("%d messages at once: up to %d are accepted", n, protoutil.MostSaid)
	}
	if n := len(said.GetGroup().GetMembers()); n > channelconfig.MaxBFT {
		return fmt.Errorf("%d members: up to %d are accepted", n, channelconfig.MaxBFT)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if said.Group != nil {
		a.said[address] = said.Group
		a.regroup(said.Group)
	}
	for _, raw := range said.Messages {
		m, err := zyzzyva.Decode(raw)
		if err != nil {
			return err
		}
		if a.client != nil {
			a.step(bft.Received{From: a.ids[address], Message: m})
		}
	}
	return nil
}

// regroup believes who orders when one more than may lie say the same, and it is those whom the configuration names.
func (a *attendance) regroup(g *streampb.OrderingGroup) {
	same := 0
	for _, other := range a.said {
		if proto.Equal(other, g) {
			same++
		}
	}
	if same < a.bundle.Orderer.Trust().Answers || a.group != nil && g.Epoch <= a.group.Epoch {
		return
	}
	keys, err := a.keysOf(g)
	if err != nil || len(keys) != len(g.Members) {
		return // of another configuration than this one
	}
	group, ids := bft.Group{Epoch: g.Epoch}, map[string]bft.ID{}
	for _, m := range g.Members {
		group.Members = append(group.Members, m.Id)
		ids[m.Address] = m.Id
	}
	if !slices.IsSorted(group.Members) {
		return
	}
	clear(a.waiting) // who waits is told by Broadcast
	a.group, a.ids = g, ids
	a.client = zyzzyva.NewClient(zyzzyva.ClientConfig{
		Domain: a.bundle.ChannelID, Group: group, Fast: a.bundle.Orderer.BFT.ViewChangeTimeout / fastShare,
		Resend: certifyAgain, MaxResend: mostCertifyAgain,
		Verify: func(by bft.ID, data, signature []byte) bool {
			key := keys[by]
			return key != nil && key.Verify(data, signature) == nil
		},
	})
	log.Infof("[%s] The histories of %d orderers are heard (epoch %d)", a.bundle.ChannelID, len(ids), g.Epoch)
}

// keysOf are the members' keys by id. There are fewer than members where these are not the configuration's consenters.
func (a *attendance) keysOf(g *streampb.OrderingGroup) (map[bft.ID]*identity.Identity, error) {
	o := a.bundle.Orderer
	keys := map[bft.ID]*identity.Identity{}
	if len(g.Members) != len(o.Consenters) {
		return keys, nil
	}
	for i, c := range o.Consenters {
		at := slices.IndexFunc(g.Members, func(m *streampb.OrderingMember) bool { return m.Address == channelconfig.ConsenterAddress(c) })
		if at < 0 {
			return keys, nil
		}
		key, err := a.bundle.MSP.DeserializeUndated(o.Identities[o.Numbers[i]])
		if err != nil {
			return nil, err
		}
		keys[g.Members[at].Id] = key
	}
	return keys, nil
}

// link is the connection to one orderer.
type link struct {
	*attendance
	orderer *orderer
	out     chan []byte
}

// run keeps the link until the attendance ends.
func (l *link) run() {
	for l.ctx.Err() == nil {
		err := l.attend()
		log.Debugf("[%s] attending orderer %s: %s", l.bundle.ChannelID, l.orderer.address, err)
		select {
		case <-time.After(attendAgain):
		case <-l.ctx.Done():
		}
	}
}

func (l *link) attend() error {
	conn, err := l.orderer.cast.dialer.conn(l.orderer.node)
	if err != nil {
		return err
	}
	defer conn.release()
	request, err := l.orderer.cast.request(l.bundle.ChannelID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(l.ctx)
	stream, err := streampb.NewStreamClient(conn).Attend(ctx, grpc.MaxCallRecvMsgSize(maxSaid))
	if err != nil {
		cancel()
		return err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	sending.Go(func() { l.tell(ctx, stream, request) })
	for {
		said, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := l.hear(l.orderer.address, said); err != nil {
			return err
		}
	}
}

// tell sends what is queued. A stream that has failed says why to who receives.
func (l *link) tell(ctx context.Context, stream grpc.BidiStreamingClient[streampb.Said, streampb.Said], request *commonpb.Envelope) {
	err := stream.Send(&streampb.Said{Request: request})
	for err == nil {
		select {
		case m := <-l.out:
			err = stream.Send(&streampb.Said{Messages: [][]byte{m}})
		case <-ctx.Done():
			return
		}
	}
}
