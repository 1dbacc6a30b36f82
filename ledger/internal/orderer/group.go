package orderer

import (
	"bytes"
	"context"
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// group is the consenters of a channel by one configuration. It is immutable: the next one replaces it.
type group struct {
	bundle  *channelconfig.Bundle
	id      uint64 // this orderer's; 0: it is no consenter
	members map[uint64]member
	leaving []uint64                   // those of members that the configuration has removed
	remotes map[uint64]*cluster.Remote // of the others
	parting map[uint64]*cluster.Remote // parting are the remotes of the group before, which answer for lastWords what they were handed
}

// member is a consenter of the channel.
type member struct {
	address        string
	client, server []byte // TLS certificates, DER
	roots          *x509.CertPool
}

func memberOf(c *etcdraftpb.Consenter, roots *x509.CertPool) member {
	return member{
		address: channelconfig.ConsenterAddress(c), roots: roots,
		client: channelconfig.CertificateDER(c.ClientTlsCert), server: channelconfig.CertificateDER(c.ServerTlsCert),
	}
}

// owner is the id of the consenter with this client certificate; 0: no consenter has it. An orderer that was removed and
// added again with its certificate has a new id, and may be heard by its old one still (keepLeaving). The new id is the
// larger one, for none is given twice.
func (g *group) owner(certificate []byte) (owner uint64) {
	for id, m := range g.members {
		if bytes.Equal(m.client, certificate) {
			owner = max(owner, id)
		}
	}
	return owner
}

// regroup takes over the consenters of the configuration in force. Of the applying goroutine.
func (ch *channel) regroup() {
	ch.grouping.Lock()
	defer ch.grouping.Unlock()
	g := &group{bundle: ch.Bundle(), members: map[uint64]member{}}
	o := g.bundle.Orderer
	for i, id := range ch.Members() {
		g.members[id] = memberOf(o.Consenters[i], o.TLSRoots)
	}
	switch {
	case ch.kind.Log.External: // there are no members
	case len(g.members) == 0:
		g.id = 1 // a single orderer needs no name
	default:
		g.id = ch.ownID(g.members)
	}
	if before := ch.group.Load(); before != nil && ch.kind.Lingers {
		g.keepLeaving(before)
	}
	ch.adopt(g)
}

// keepLeaving has the members heard that the group before had and this one has not: their votes may be needed to agree
// on where the one ends and the other begins.
func (g *group) keepLeaving(before *group) {
	for id, m := range before.members {
		if _, stays := g.members[id]; !stays && id != before.id && !slices.Contains(before.leaving, id) {
			g.members[id] = m
			g.leaving = append(g.leaving, id)
		}
	}
}

// ahead is a configuration that this orderer's log has not come to yet, and the ids of its consenters.
type ahead struct {
	bundle *channelconfig.Bundle
	ids    []uint64
}

// introduce accepts messages of the consenters of a later configuration until the log has come to it. One of them may
// lead: the protocol takes entries from any member, and only our connections refuse a certificate that they do not know.
func (ch *channel) introduce(later *ahead) {
	ch.grouping.Lock()
	defer ch.grouping.Unlock()
	now := ch.group.Load()
	if later.bundle.Sequence <= now.bundle.Sequence || ch.ahead != nil && later.bundle.Sequence <= ch.ahead.bundle.Sequence {
		return
	}
	log.Infof("[channel: %s] Consenters of configuration %d are heard, as of now %d is in force here", ch.name, later.bundle.Sequence, now.bundle.Sequence)
	ch.ahead = later
	ch.adopt(&group{bundle: now.bundle, id: now.id, members: maps.Clone(now.members), leaving: now.leaving})
}

// adopt connects to a group's members and those of a configuration ahead, and replaces the group before.
// Connections to unchanged members stay open. The caller holds the lock.
func (ch *channel) adopt(g *group) {
	before := ch.group.Load()
	if a := ch.ahead; a != nil && a.bundle.Sequence <= g.bundle.Sequence {
		ch.ahead = nil
	} else if a != nil && g.id != 0 {
		for i, id := range a.ids {
			if id != g.id {
				g.members[id] = memberOf(a.bundle.Orderer.Consenters[i], a.bundle.Orderer.TLSRoots)
			}
		}
	}
	g.remotes = map[uint64]*cluster.Remote{}
	for id, m := range g.members {
		if id == g.id {
			continue
		}
		remote, err := ch.owner.remotes.take(m)
		if err != nil {
			log.Errorf("[channel: %s] orderer %s: %s", ch.name, m.address, err)
			continue
		}
		g.remotes[id] = remote
	}
	if before != nil {
		g.parting = before.remotes
	}
	ch.group.Store(g)
	for _, remote := range g.parting {
		ch.owner.remotes.release(remote)
	}
}

// ownID finds this orderer by its certificate, or else by its address: an orderer that has its next certificate already
// is the same consenter, though the others refuse it until the configuration names that certificate.
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

// mostAnswer is how many bytes another orderer's answer to what is handed to it has at most, and some more.
const mostAnswer = 1 << 20

// remotes are a node's connections to other orderers. All channels share one for each address, certificate and set of
// authorities.
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

func (r *remotes) take(m member) (*cluster.Remote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.taken {
		if t.address == m.address && bytes.Equal(t.pinned, m.server) && t.roots.Equal(m.roots) {
			t.users++
			return t.remote, nil
		}
	}
	conn, err := cluster.Dial(m.address, r.node.certificate, m.roots, m.server, mostAnswer)
	if err != nil {
		return nil, err
	}
	t := &taken{remote: cluster.NewRemote(m.address, conn, r.node), address: m.address, pinned: m.server, roots: m.roots, users: 1}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, old := range r.taken {
		if old.address == t.address {
			old.forget() // it has the same series as the connection that replaces it
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

// lastWords is how long an unused connection stays open: a consenter that is removed has to hear of it.
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
