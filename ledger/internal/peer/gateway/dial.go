package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qioi/qioi/ledger/internal/wire"
)

const (
	windowBytes     = 4 << 20 // fixed and wide: no pings to estimate one
	maxMessageBytes = 100 << 20
	// maxAnswer and maxSaid are what an orderer answers to a transaction, and what one of Zyzzyva's says at once. It may
	// lie, and what it answers is told to the client.
	maxAnswer, maxSaid = 64 << 10, 4 << 20
)

var (
	errClosed           = errors.New("the peer is stopping")
	errOtherCertificate = errors.New("its certificate is not the one that the channel names for this orderer")
)

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

// dialer keeps one connection to each node. gRPC itself reconnects.
type dialer struct {
	tls         bool
	certificate *tls.Certificate
	pace        *wire.Pacer

	mu     sync.Mutex
	conns  map[string]*dialled
	closed bool
}

type dialled struct {
	*grpc.ClientConn
	node node
}

func newDialer(useTLS bool, certificate *tls.Certificate, pace *wire.Pacer) *dialer {
	return &dialer{tls: useTLS, certificate: certificate, pace: pace, conns: map[string]*dialled{}}
}

// conn returns the connection to a node, made again when its TLS roots have changed.
func (d *dialer) conn(n node) (*grpc.ClientConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	known := d.conns[n.address]
	if known != nil && known.node.same(n) {
		return known.ClientConn, nil
	}
	creds := insecure.NewCredentials()
	if d.tls {
		config := &tls.Config{RootCAs: n.roots, MinVersion: tls.VersionTLS12}
		if d.certificate != nil {
			config.Certificates = []tls.Certificate{*d.certificate}
		}
		if n.certificate != nil {
			config.VerifyConnection = func(state tls.ConnectionState) error {
				if !bytes.Equal(state.PeerCertificates[0].Raw, n.certificate) {
					return errOtherCertificate
				}
				return nil
			}
		}
		creds = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(n.address, d.pace.Dialer(), grpc.WithTransportCredentials(creds),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		// A node that comes back is used again within a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 3 * time.Second,
		}))
	if err != nil {
		return nil, err
	}
	if known != nil {
		_ = known.Close()
	}
	d.conns[n.address] = &dialled{ClientConn: conn, node: n}
	return conn, nil
}

func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, conn := range d.conns {
		_ = conn.Close()
	}
}
