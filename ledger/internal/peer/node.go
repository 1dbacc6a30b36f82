// Package peer is a peer node: it follows its channels' orderers, keeps their
// ledgers, and serves clients: endorsement, the gateway, block events.
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/deliver"
	"github.com/qioi/qioi/ledger/internal/peer/endorser"
	"github.com/qioi/qioi/ledger/internal/peer/follow"
	"github.com/qioi/qioi/ledger/internal/peer/gateway"
	"github.com/qioi/qioi/ledger/internal/peer/syscc"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var log = ops.Logger("nodeCmd")

const (
	maxMessageBytes = 100 << 20 // Fabric's
	maxStreams      = 4096      // calls at once on one connection
	callWorkers     = 64        // goroutines that take one call after the other, whose stacks have grown; calls beyond have their own
	// minPing lets clients keep their connections alive through firewalls.
	minPing = 10 * time.Second
)

// Node is a peer.
type Node struct {
	cfg         *nodeconfig.Config
	signer      *identity.SigningIdentity
	certificate *tls.Certificate // nil: TLS is off
	listener    net.Listener
	pace        *wire.Pacer
	ops         *ops.Server
	channels    channels
	chaincodes  *cchost.Host
	endorser    *endorser.Endorser
	gateway     *gateway.Server
}

// Open claims the node's addresses and rebuilds its ledgers; Run serves.
func Open(cfg *nodeconfig.Config) (_ *Node, err error) {
	n := &Node{cfg: cfg, channels: channels{}, pace: wire.New(cfg.WireGap)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", cfg.Name, errors.Join(err, n.close()))
		}
	}()
	claimed, err := serving.Claim(cfg)
	if err != nil {
		return nil, err
	}
	n.signer, n.certificate, n.listener, n.ops = claimed.Signer, claimed.Certificate, claimed.Listener, claimed.Ops
	if err := n.openChannels(); err != nil {
		return nil, err
	}
	return n, n.openServices()
}

func (n *Node) openChannels() error {
	metrics := chain.NewMetrics(n.ops.Registry())
	for _, c := range n.cfg.Channels {
		genesis, _, err := c.GenesisBlock()
		if err != nil {
			return err
		}
		ch, err := chain.Open(filepath.Join(n.cfg.Data, "channels", c.Name), genesis, chain.Options{
			Workers: n.cfg.VerifyWorkers, Metrics: metrics, CheckpointEvery: n.cfg.CheckpointInterval,
		})
		if err != nil {
			return err
		}
		n.channels[c.Name] = ch
		if ch.Bundle().HasACLs() {
			log.Warnf("[%s] the channel's ACLs are not used: Fabric's defaults hold", c.Name)
		}
	}
	return nil
}

func (n *Node) openServices() error {
	chaincodes := make([]cchost.Chaincode, 0, len(n.cfg.Chaincodes))
	for _, cc := range n.cfg.Chaincodes {
		address, secured, err := cc.Dial()
		if err != nil {
			return err
		}
		chaincodes = append(chaincodes, cchost.Chaincode{Name: cc.Name, Address: address, TLS: secured})
	}
	var err error
	if n.chaincodes, err = cchost.New(cchost.Config{Chaincodes: chaincodes, Pace: n.pace}); err != nil {
		return err
	}
	system := syscc.New(n.cfg.MSPID, n.channels.asked())
	var executes endorser.Chaincodes = n.chaincodes
	if n.cfg.LikeFabric {
		executes = endorser.Logged(executes)
	}
	n.endorser = endorser.New(n.signer, n.channels.endorsing, executes, system, endorser.NewMetrics(n.ops.Registry()))
	n.gateway, err = gateway.New(gateway.Config{
		MSPID: n.cfg.MSPID, Address: n.cfg.KnownAs(), Channels: n.channels, Endorser: n.endorser, Commits: n.channels, Blocks: n.channels,
		TLS: n.cfg.TLS.Enabled, Certificate: n.certificate, Signer: n.signer, Pace: n.pace, Registry: n.ops.Registry(),
	})
	return err
}

// Run serves until ctx ends, or until a ledger cannot go on: then the node stops
// rather than report what it cannot keep.
func (n *Node) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := n.newServer()
	for _, ch := range n.channels {
		f := &follow.Follower{Name: n.cfg.Name, Signer: n.signer, Chain: ch, TLS: n.cfg.TLS.Enabled, Certificate: n.certificate}
		group.Go(func() error { return ch.Run(ctx) })
		group.Go(func() error {
			if err := f.Run(ctx); !errors.Is(err, chain.ErrStopped) {
				return err
			}
			return nil // the chain itself says why it stopped
		})
	}
	group.Go(func() error { return n.chaincodes.Run(ctx) })
	group.Go(func() error { return n.gateway.Run(ctx) })
	group.Go(func() error { return n.ops.Serve(ctx) })
	group.Go(func() error { return serving.Serve(ctx, server, n.pace.Listener(n.listener)) })
	log.Infof("Started peer %s of %s at %s with %d channel(s)", n.cfg.Name, n.cfg.MSPID, n.listener.Addr(), len(n.channels))
	n.ops.SetReady()
	err := group.Wait()
	for _, ch := range n.channels {
		err = errors.Join(err, ch.Close())
	}
	return err
}

func (n *Node) newServer() *grpc.Server {
	server := serving.Server(serving.Limits{MessageBytes: maxMessageBytes, Streams: maxStreams, MinPing: minPing},
		serving.Secured(n.certificate, tls.NoClientCert), append(serving.LogCalls(n.cfg), grpc.NumStreamWorkers(callWorkers))...)
	peerpb.RegisterEndorserServer(server, &endorser.Service{Endorser: n.endorser})
	peerpb.RegisterDeliverServer(server, deliver.New(n.channels.delivering, serving.NewDelivered(n.ops.Registry())))
	gatewaypb.RegisterGatewayServer(server, n.gateway)
	return server
}

// close releases what Open took before it failed.
func (n *Node) close() error {
	var errs []error
	if n.listener != nil {
		errs = append(errs, n.listener.Close())
	}
	for _, ch := range n.channels {
		errs = append(errs, ch.Close())
	}
	return errors.Join(errs...)
}
