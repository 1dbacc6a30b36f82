package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// broadcaster keeps a stream to the orderers of each channel, which all callers share.
type broadcaster struct {
	dialer  *dialer
	signer  protoutil.Signer // nil: no orderer's histories are asked for
	timeout time.Duration    // of opening a stream, and of one answer
	decided *prometheus.CounterVec
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu       sync.Mutex
	channels map[string]*cluster
	closed   bool
}

func newBroadcaster(d *dialer, config Config) *broadcaster {
	b := &broadcaster{dialer: d, signer: config.Signer, timeout: config.BroadcastTimeout, channels: map[string]*cluster{}}
	b.decided = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "qioi", Subsystem: "gateway", Name: "ordered_total",
		Help: "Submitted transactions that are ordered, where orderers may lie: by all orderers' histories, by a certificate that a quorum holds, or by the word of one more orderer than may lie.",
	}, []string{"channel", "by"})
	if config.Registry != nil {
		config.Registry.MustRegister(b.decided)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// close ends all streams and returns when nothing of them is left.
func (b *broadcaster) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.done.Wait()
}

// goes starts a stream's reader, unless we are closing.
func (b *broadcaster) goes(run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.done.Go(run)
	}
	return !b.closed
}

// cluster is the orderers of a channel as one version of its configuration names them.
type cluster struct {
	bundle   *channelconfig.Bundle
	orderers []*orderer
	// preferred is the index of the orderer that took the last transaction, or that it
	// named as the leader.
	preferred atomic.Int64
	ranks     *ranks
	attending *attendance // nil: SUCCESS alone counts
	decided   *prometheus.CounterVec
}

// cluster returns the orderers of a channel; a new configuration keeps the streams to
// those that stay. A call that began under an older one takes nothing back.
func (b *broadcaster) cluster(bundle *channelconfig.Bundle) *cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.channels[bundle.ChannelID]
	if old != nil && (old.bundle == bundle || old.bundle.Sequence > bundle.Sequence) {
		return old
	}
	fresh := &cluster{bundle: bundle}
	for _, address := range bundle.Orderer.Addresses {
		n := node{address: address, mspID: bundle.Orderer.Owners[address], roots: bundle.Orderer.TLSRoots}
		if bundle.Orderer.Trust().Answers > 1 {
			n.certificate = bundle.Orderer.ServerCertificate(address)
		}
		fresh.orderers = append(fresh.orderers, &orderer{node: n, cast: b, turn: make(chan struct{}, 1)})
	}
	fresh.ranks = newRanks(len(fresh.orderers))
	if old != nil {
		for i, o := range fresh.orderers {
			if kept := old.find(o.address); kept >= 0 && old.orderers[kept].same(o.node) {
				fresh.orderers[i] = old.orderers[kept]
			}
		}
		for _, o := range old.orderers {
			if !slices.Contains(fresh.orderers, o) {
				b.done.Go(o.drop)
			}
		}
	}
	fresh.decided = b.decided
	if old != nil && old.attending != nil {
		old.attending.cancel()
	}
	if bundle.Orderer.Trust().Histories && b.signer != nil && !b.closed {
		b.attend(fresh)
	}
	b.channels[bundle.ChannelID] = fresh
	return fresh
}

// attend has a cluster's consenters say their histories. The caller holds the lock.
func (b *broadcaster) attend(c *cluster) {
	c.attending = newAttendance(b.ctx, c.bundle)
	for _, index := range c.consenters() {
		o := c.orderers[index]
		c.attending.links[o.address] = &link{c.attending, o, make(chan []byte, queuedCertificates)}
	}
	for _, l := range c.attending.links {
		b.done.Go(l.run)
	}
}

// request asks an orderer to be heard as a client of its protocol.
func (b *broadcaster) request(channel string) (*commonpb.Envelope, error) {
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, channel, b.signer, nil, nil)
	return env, err
}

func (c *cluster) find(address string) int {
	return slices.IndexFunc(c.orderers, func(o *orderer) bool { return o.address == address })
}

// prefer notes who took a transaction. An orderer may name the leader in a SUCCESS
// response's info, which Fabric leaves empty: asked directly it saves a hop.
func (c *cluster) prefer(index int, response *ordererpb.BroadcastResponse) {
	if leader := c.find(response.GetInfo()); leader >= 0 {
		index = leader
	}
	c.preferred.Store(int64(index))
}

// orderer is one orderer of one channel.
type orderer struct {
	node
	cast *broadcaster
	turn chan struct{} // full while a caller sends, which may then change open
	open *pipeline
}

// broadcast hands an envelope to the orderer and waits for its answer.
func (o *orderer) broadcast(ctx context.Context, env *commonpb.Envelope) (*ordererpb.BroadcastResponse, error) {
	// An orderer that lets no stream open blocks us here, and those who wait for the turn meanwhile.
	opening, cancel := context.WithTimeoutCause(ctx, o.cast.timeout, errSilent)
	defer cancel()
	select {
	case o.turn <- struct{}{}:
	case <-opening.Done():
		return nil, context.Cause(opening)
	}
	p, err := o.pipeline(opening)
	cancel()
	if err != nil {
		<-o.turn
		return nil, err
	}
	// An orderer that no longer reads blocks us in send; one that no longer answers, below.
	silent := time.AfterFunc(o.cast.timeout, func() { p.fail(errSilent) })
	defer silent.Stop()
	answer, err := p.send(env)
	<-o.turn
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a.response, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeline is the open stream, opened again if need be; the caller holds the turn.
func (o *orderer) pipeline(opening context.Context) (*pipeline, error) {
	if o.open == nil || o.open.failed() {
		if err := o.connect(opening); err != nil {
			return nil, err
		}
	}
	return o.open, nil
}

// connect opens a stream, before opening ends. The stream outlives the caller: others share it.
func (o *orderer) connect(opening context.Context) error {
	conn, err := o.cast.dialer.conn(o.node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(o.cast.ctx)
	context.AfterFunc(ctx, conn.release)
	opened := context.AfterFunc(opening, cancel)
	stream, err := ordererpb.NewAtomicBroadcastClient(conn).Broadcast(ctx, grpc.MaxCallRecvMsgSize(maxAnswer))
	if !opened() {
		err = context.Cause(opening)
	}
	if err != nil {
		cancel()
		return err
	}
	p := &pipeline{stream: stream, cancel: cancel}
	if !o.cast.goes(p.receive) || !o.cast.goes(func() { p.attend(ctx, conn) }) {
		cancel()
		return errClosed
	}
	o.open = p
	return nil
}

// drop ends the stream to an orderer that the channel no longer has.
func (o *orderer) drop() {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	if o.open != nil {
		o.open.fail(errStreamClosed)
	}
}
