// Package dial opens a peer's connections to orderers and to other peers.
package dial

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	windowBytes = 4 << 20 // fixed and wide: no pings to estimate one
	// handshake is how long a node may take to accept a connection. gRPC waits for 20 s.
	handshake = 3 * time.Second
	// After a minute without a word the node is asked; without an answer in 20 s the connection ends. TCP itself notices only
	// where it has something to send, and after a quarter of an hour. Both times are Fabric's.
	askAfter, answerWithin = time.Minute, 20 * time.Second
)

var errOtherCertificate = errors.New("its certificate is not the one that the channel names for this orderer")

// Target is a node and what it is known by.
type Target struct {
	Address string
	Roots   *x509.CertPool
	// Certificate is the only one that the node may show, in DER; nil: any that Roots vouch for.
	Certificate []byte
}

// Own is what a peer itself uses.
type Own struct {
	TLS         bool
	Certificate *tls.Certificate // shown where a node asks; may be nil
}

// Open prepares a connection, which is made, and made again, when it is used.
func Open(to Target, own Own, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(to.Address, append(more, grpc.WithTransportCredentials(to.credentials(own)),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: askAfter, Timeout: answerWithin}),
		// A node that comes back is used again within a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: handshake,
		}))...)
}

func (t Target) credentials(own Own) credentials.TransportCredentials {
	if !own.TLS {
		return insecure.NewCredentials()
	}
	config := &tls.Config{RootCAs: t.Roots, MinVersion: tls.VersionTLS12}
	if own.Certificate != nil {
		config.Certificates = []tls.Certificate{*own.Certificate}
	}
	if t.Certificate != nil {
		config.VerifyConnection = func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, t.Certificate) {
				return errOtherCertificate
			}
			return nil
		}
	}
	return credentials.NewTLS(config)
}
