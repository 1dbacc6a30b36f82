// Package orderer is an ordering node: clients hand it transactions (Broadcast),
// the orderers of a channel agree on their order, peers get them one by one
// (Follow) or by blocks (Deliver).
package orderer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var log = ops.Logger("orderer")

const (
	// messageSlack is what surrounds the largest transaction in a message between nodes.
	messageSlack = 4 << 20
	maxStreams   = 1024
	minPing      = 5 * time.Second
	// leastOfStrangers is what clients that are not known may have sent in all, however small a channel's transactions are.
	leastOfStrangers = 256 << 20
)

// Node is an orderer.
type Node struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	ordererpb.UnimplementedClusterServer
	streampb.UnimplementedStreamServer

	cfg         *nodeconfig.Config
	signer      *identity.SigningIdentity
	certificate *tls.Certificate // nil: TLS is off
	listener    net.Listener
	ops         *ops.Server
	metrics     *metrics
	channels    map[string]*channel
	remotes     *remotes
	unheard     unheard
	strangers   *serving.Strangers
	readers     serving.Readers
	maxMessage  int // maxMessage is the largest that this node takes as a server
}

// Open claims the node's addresses and recovers its channels; Run serves.
func Open(cfg *nodeconfig.Config) (_ *Node, err error) {
	n := &Node{cfg: cfg, channels: map[string]*channel{}}
	n.strangers = serving.NewStrangers(leastOfStrangers, n.mostOfStrangers)
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
	n.metrics = newMetrics(n.ops.Registry())
	n.remotes = newRemotes(n)
	if err := n.openChannels(); err != nil {
		return nil, err
	}
	if n.certificate == nil {
		log.Warnf("TLS is off: every sender that reaches %s is taken for an orderer", cfg.Listen)
	}
	return n, nil
}

// openChannels opens all chains before it joins any channel, for the largest message of all.
func (n *Node) openChannels() error {
	for _, c := range n.cfg.Channels {
		ch, err := n.openChannel(c)
		if err != nil {
			return err
		}
		n.channels[c.Name] = ch
		n.maxMessage = max(n.maxMessage, ch.mostTaken()+messageSlack)
	}
	for _, ch := range n.channels {
		if err := ch.join(); err != nil {
			return fmt.Errorf("channel %s: %w", ch.name, err)
		}
	}
	return nil
}

// mostTaken is the largest transaction that this node takes. Other orderers send entries of their logs, which may be older or
// newer than the configuration that is in force here. Where orderers do not talk to each other only clients send any.
func (ch *channel) mostTaken() int {
	o := &ch.Bundle().Orderer
	if len(o.Consenters) == 0 {
		return o.AbsoluteMaxBytes
	}
	return channelconfig.MostBytes(o.ConsensusType)
}

// mostOfStrangers has two of them bring the largest transaction that a channel allows.
func (n *Node) mostOfStrangers() (most int) {
	for _, ch := range n.channels {
		most = max(most, 2*ch.largest())
	}
	return most
}

// Run serves until ctx ends, or until log or ledger of a channel fail: then the
// node stops rather than promise what it cannot keep.
func (n *Node) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := n.newServer()
	n.remotes.run(ctx, group)
	for _, ch := range n.channels {
		group.Go(func() error { return ch.run(ctx) })
	}
	group.Go(func() error { return n.ops.Serve(ctx) })
	listener := n.strangers.Listener(wire.New(n.cfg.WireGap).Listener(n.listener))
	group.Go(func() error { return serving.Serve(ctx, server, listener) })
	log.Infof("%s serves %d channel(s) at %s", n.cfg.Name, len(n.channels), n.listener.Addr())
	n.ops.SetReady()
	err := group.Wait()
	for _, ch := range n.channels {
		err = errors.Join(err, ch.Close())
	}
	return err
}

func (n *Node) newServer() *grpc.Server {
	server := serving.Server(
		// The other orderers ping every 10 s; gRPC by itself takes that for an attack.
		serving.Limits{MessageBytes: n.maxMessage, Streams: maxStreams, MinPing: minPing},
		// Clients need no certificate; for Step it must be one that the channel names.
		serving.Secured(n.certificate, tls.RequestClientCert), serving.LogCalls(n.cfg)...)
	ordererpb.RegisterAtomicBroadcastServer(server, n)
	ordererpb.RegisterClusterServer(server, n)
	streampb.RegisterStreamServer(server, n)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer()) // peers ask it whether this node still runs
	return server
}

// close releases what Open took before it failed.
func (n *Node) close() error {
	var err error
	if n.listener != nil {
		err = n.listener.Close()
	}
	for _, ch := range n.channels {
		err = errors.Join(err, ch.Close())
	}
	return err
}

// Down implements cluster.Events. Another connection to the same address, under a certificate that another channel names,
// may work.
func (n *Node) Down(remote *cluster.Remote) {
	for _, ch := range n.channels {
		part := ch.part()
		if part == nil {
			continue
		}
		for id, r := range ch.group.Load().remotes {
			if r != remote {
				continue
			}
			part.Unreachable(id)
			if part.Leader() == id && !ch.kind.Keeps {
				ch.waiting.refuseAll(errConnection)
			}
		}
	}
}

// Refused implements cluster.Events.
func (n *Node) Refused(by *cluster.Remote, response *ordererpb.SubmitResponse) {
	if ch := n.channels[response.Channel]; ch != nil && ch.mayRefuse(by) {
		ch.refusedByLeader(response)
	}
}
