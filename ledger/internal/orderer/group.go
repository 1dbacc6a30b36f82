package orderer

import (
	"bytes"
	"context"
	"crypto/x509"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// group is who agrees on a channel's order, as one configuration has it. It does not change: the next one comes in
// its place.
type group struct {
	bundle  *channelconfig.Bundle
	id      uint64 // ours; 0: we are none of them
	members map[uint64]member
	remotes map[uint64]*cluster.Remote // of the others
}

// member is a consenter of the channel.
type member struct {
	address        string
	client, server []byte // TLS certificates, DER
}

func memberOf(c *etcdraftpb.Consenter) member {
	return member{
		address: channelconfig.ConsenterAddress(c),
		client:  channelconfig.CertificateDER(c.ClientTlsCert), server: channelconfig.CertificateDER(c.ServerTlsCert),
	}
}

// owner is the consenter whose certificate it is as a client; 0: nobody's.
func (g *group) owner(certificate []byte) uint64 {
	for id, m := range g.members {
		if bytes.Equal(m.client, certificate) {
			return id
		}
	}
	return 0
}

// regroup takes over the consenters of the configuration in force. Connections to those who stay as they are last.
func (ch *channel) regroup() {
	before := ch.group.Load()
	g := &group{bundle: ch.Bundle(), members: map[uint64]member{}, remotes: map[uint64]*cluster.Remote{}}
	o := g.bundle.Orderer
	if o.ConsensusType == channelconfig.Solo {
		g.id = 1
	}
	for i, id := range ch.Members() {
		g.members[id] = memberOf(o.Consenters[i])
	}
	if o.ConsensusType == channelconfig.Raft {
		g.id = ch.ownID(g.members)
	}
	for id, m := range g.members {
		if id == g.id {
			continue
		}
		remote, err := ch.owner.remotes.take(m, o)
		if err != nil {
			log.Errorf("[channel: %s] orderer %s: %s", ch.name, m.address, err)
			continue
		}
		g.remotes[id] = remote
	}
	ch.group.Store(g)
	if before != nil {
		for _, remote := range before.remotes {
			ch.owner.remotes.release(remote)
		}
	}
}

// ownID finds us by our certificate, or else by our address: one that has its next certificate already is the same
// consenter still, though the others do not talk to it before the configuration names that certificate.
func (ch *channel) ownID(members map[uint64]member) uint64 {
	n, found := ch.owner, uint64(0)
	for id, m := range members {
		if n.certificate != nil && bytes.Equal(m.server, n.certificate.Certificate[0]) {
			return id
		}
		if m.address == n.cfg.KnownAs() {
			found = id
		}
	}
	if found != 0 && n.certificate != nil {
		log.Warnf("[channel: %s] the channel names another TLS certificate for %s than it has: others refuse it until they agree", ch.name, n.cfg.KnownAs())
	}
	return found
}

// remotes are a node's connections to other orderers, one for all channels to each address, certificate and set of authorities.
type remotes struct {
	node  *Node
	mu    sync.Mutex
	taken map[*cluster.Remote]*taken
	start func(*taken) // nil until the node runs
}

type taken struct {
	remote  *cluster.Remote
	address string
	pinned  []byte
	roots   *x509.CertPool
	users   int
	forget  func()
	ctx     context.Context
	cancel  context.CancelFunc
}

func newRemotes(n *Node) *remotes { return &remotes{node: n, taken: map[*cluster.Remote]*taken{}} }

// run starts the connections there are, and from now on each that is added.
func (r *remotes) run(ctx context.Context, group *errgroup.Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = func(t *taken) {
		stop := context.AfterFunc(ctx, t.cancel)
		group.Go(func() error {
			defer stop()
			return t.remote.Run(t.ctx)
		})
	}
	for _, t := range r.taken {
		r.start(t)
	}
}

func (r *remotes) take(m member, o channelconfig.Orderer) (*cluster.Remote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.taken {
		if t.address == m.address && bytes.Equal(t.pinned, m.server) && t.roots.Equal(o.TLSRoots) {
			t.users++
			return t.remote, nil
		}
	}
	conn, err := cluster.Dial(m.address, r.node.certificate, o.TLSRoots, m.server, r.node.maxMessage)
	if err != nil {
		return nil, err
	}
	t := &taken{remote: cluster.NewRemote(m.address, conn, r.node), address: m.address, pinned: m.server, roots: o.TLSRoots, users: 1}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, old := range r.taken {
		if old.address == t.address {
			old.forget() // the same series; this one has come in its place
			old.forget = func() {}
		}
	}
	t.forget = r.node.metrics.remote(m.address, t.remote)
	r.taken[t.remote] = t
	if r.start != nil {
		r.start(t)
	}
	return t.remote, nil
}

// lastWords is how long a connection stays that no channel needs any more: one who is removed has to hear of it.
const lastWords = time.Second

func (r *remotes) release(remote *cluster.Remote) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.taken[remote]
	if t.users--; t.users > 0 {
		return
	}
	delete(r.taken, remote)
	t.forget()
	time.AfterFunc(lastWords, t.cancel)
}
