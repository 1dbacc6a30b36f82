// Package serving is what orderers, peers and chaincodes have in common as servers.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/wire"
)

// windowBytes is what a stream may have under way. A fixed window, wide enough for many transactions
// at once, spares the pings with which gRPC otherwise estimates one.
const windowBytes = 4 << 20

// Claimed is what a node holds from its start on: who it is, and where it listens.
type Claimed struct {
	Signer      *identity.SigningIdentity
	Certificate *tls.Certificate // nil: TLS is off
	Listener    net.Listener
	Ops         *ops.Server
}

// Claim loads a node's keys and takes its addresses.
func Claim(cfg *nodeconfig.Config) (c Claimed, err error) {
	if c.Signer, err = cfg.Signer(); err != nil {
		return c, err
	}
	if c.Certificate, err = cfg.Certificate(); err != nil {
		return c, err
	}
	if c.Listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return c, fmt.Errorf("%w (a free host:port is accepted)", err)
	}
	if c.Ops, err = ops.Listen(ops.Config{Listen: cfg.Operations.Listen, Pprof: cfg.Operations.Pprof}); err != nil {
		return c, errors.Join(err, c.Listener.Close())
	}
	return c, nil
}

// Limits bound what clients may ask of a server.
type Limits struct {
	// MessageBytes is the largest message that is taken. What is sent is not bounded: it may have been ordered under another
	// configuration than the present one.
	MessageBytes int
	// Streams is how many calls one connection may have at once; 0: any number.
	Streams uint32
	// MinPing is the least time between two pings of a client, which is disconnected where it sends more.
	MinPing time.Duration
}

// Server makes a server; secured may be nil.
func Server(limits Limits, secured *tls.Config, more ...grpc.ServerOption) *grpc.Server {
	options := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(limits.MessageBytes),
		experimental.BufferPool(wire.Buffers), grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: limits.MinPing, PermitWithoutStream: true}),
	}, more...)
	if limits.Streams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(limits.Streams))
	}
	if secured != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secured)))
	}
	return grpc.NewServer(options...)
}

// Serve answers until ctx ends; then it returns nil. Streams of blocks and transactions have no end of their own, so
// nothing is waited for.
func Serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	accepting := &conns{Listener: listener, open: map[net.Conn]struct{}{}}
	stop := context.AfterFunc(ctx, func() {
		accepting.end()
		server.Stop()
	})
	defer stop()
	if err := server.Serve(accepting); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

// Secured is a server's side of TLS with a node's certificate; nil where it has none.
func Secured(certificate *tls.Certificate, clients tls.ClientAuthType) *tls.Config {
	if certificate == nil {
		return nil
	}
	return &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12, ClientAuth: clients}
}
