package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/internal/peer/dial"
	"github.com/qioi/qioi/ledger/internal/wire"
)

const (
	maxMessageBytes = 100 << 20
	// maxAnswer and maxSaid are what an orderer answers to a transaction, and what one of Zyzzyva's says at once. It may
	// lie, and what it answers is told to the client.
	maxAnswer, maxSaid = 64 << 10, 4 << 20
)

var errClosed = errors.New("the peer is stopping")

// node is a peer or an orderer; a local one is this peer itself.
type node struct {
	address, mspID string
	roots          *x509.CertPool // nil: local
	// certificate is the only one that an orderer may show where orderers may lie: none must answer in another one's name.
	certificate []byte
}

func (n node) local() bool { return n.roots == nil }

// same reports whether a connection to n may be used as one to other, at the same address.
func (n node) same(other node) bool {
	return n.roots.Equal(other.roots) && bytes.Equal(n.certificate, other.certificate)
}

// unusedFor is how long a connection that nobody uses is kept: a node that is asked now and then is not dialled each time.
const unusedFor = time.Minute

// dialer keeps a connection to each node, by its address and whom it is taken for there. Channels, and organisations, may differ
// in the latter, and none may end what another one uses. gRPC itself reconnects.
type dialer struct {
	own  dial.Own
	pace *wire.Pacer

	mu     sync.Mutex
	conns  map[string][]*dialled // by address
	closed bool
}

// dialled is a connection and how many use it, or when the last one did.
type dialled struct {
	*grpc.ClientConn
	dialer *dialer
	node   node
	users  int
	used   time.Time
}

func newDialer(useTLS bool, certificate *tls.Certificate, pace *wire.Pacer) *dialer {
	return &dialer{own: dial.Own{TLS: useTLS, Certificate: certificate}, pace: pace, conns: map[string][]*dialled{}}
}

// conn returns a connection to a node, which the caller releases.
func (d *dialer) conn(n node) (*dialled, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	for _, known := range d.conns[n.address] {
		if known.node.same(n) {
			known.users++
			return known, nil
		}
	}
	conn, err := d.dial(n)
	if err != nil {
		return nil, err
	}
	d.sweep()
	made := &dialled{ClientConn: conn, dialer: d, node: n, users: 1}
	d.conns[n.address] = append(d.conns[n.address], made)
	return made, nil
}

func (d *dialer) dial(n node) (*grpc.ClientConn, error) {
	return dial.Open(dial.Target{Address: n.address, Roots: n.roots, Certificate: n.certificate}, d.own, d.pace.Dialer(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)))
}

// sweep closes the connections that nobody has used for a while. The caller holds the lock.
func (d *dialer) sweep() {
	for address, all := range d.conns {
		d.conns[address] = slices.DeleteFunc(all, func(c *dialled) bool {
			stale := c.users == 0 && time.Since(c.used) >= unusedFor
			if stale {
				_ = c.Close()
			}
			return stale
		})
		if len(d.conns[address]) == 0 {
			delete(d.conns, address)
		}
	}
}

// release says that the caller uses the connection no more.
func (c *dialled) release() {
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	c.users--
	c.used = time.Now()
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, all := range d.conns {
		for _, conn := range all {
			_ = conn.Close()
		}
	}
}
