// Package cluster is an orderer's connections to the other orderers: one stream
// to each, for all channels. Each side shows its TLS certificate, which must be
// the one that the channel's configuration names.
package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

var log = ops.Logger("orderer.common.cluster")

// ErrOverload says that an envelope was not queued: the leader is away, or does not take what is handed to it.
var ErrOverload = fmt.Errorf("%w: too many transactions wait to be handed to the leader", protoutil.ErrExhausted)

const (
	queued       = 4096
	queuedBytes  = 64 << 20 // of envelopes
	retryDelay   = 100 * time.Millisecond
	windowBytes  = 4 << 20
	keepaliveGap = 10 * time.Second
)

// Events is told what becomes of a remote orderer's stream. It must not block.
type Events interface {
	// Down: the stream of r broke; what was under way may be lost.
	Down(r *Remote)
	// Refused: the other end of r says that an envelope did not get into the log. It may not have been handed one.
	Refused(r *Remote, response *ordererpb.SubmitResponse)
}

// Remote is another orderer.
type Remote struct {
	address  string
	conn     *grpc.ClientConn
	outgoing chan outgoing
	bytes    *semaphore.Weighted // of the envelopes that wait
	events   Events
}

type outgoing struct {
	channel string
	message consensus.Message // message or submit is what there is
	submit  *ordererpb.SubmitRequest
}

// weight is what an envelope takes of the bound; a larger one takes all of it. Consenters bound their own messages.
func (o *outgoing) weight() int64 {
	return int64(min(len(o.submit.GetPayload().GetPayload())+len(o.submit.GetPayload().GetSignature()), queuedBytes))
}

// Dial prepares the connection options for an orderer whose TLS certificate must
// be pinned (PEM or DER in the tree; here DER). own is nil where TLS is off. most is how many bytes a message has that is
// taken from it; one that is sent may have any number.
func Dial(address string, own *tls.Certificate, roots *x509.CertPool, pinned []byte, most int) (*grpc.ClientConn, error) {
	return DialHearing(address, own, roots, pinned, most, nil)
}

// DialHearing has heard called, unless it is nil, with the number of bytes whenever some come from the orderer. It must not block.
func DialHearing(address string, own *tls.Certificate, roots *x509.CertPool, pinned []byte, most int, heard func(bytes int)) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if own != nil {
		creds = credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{*own}, RootCAs: roots, MinVersion: tls.VersionTLS12,
			VerifyConnection: func(state tls.ConnectionState) error {
				if len(pinned) > 0 && !bytes.Equal(state.PeerCertificates[0].Raw, pinned) {
					return errors.New("the certificate is not the one that the channel names for this orderer")
				}
				return nil
			},
		})
	}
	if heard != nil {
		creds = hearing{creds, heard}
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(creds),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveGap, Timeout: keepaliveGap}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryDelay, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 5 * retryDelay},
			MinConnectTimeout: time.Second,
		}))
}

// hearing are credentials of connections of which heard is told when they bring bytes, of a part of a message as well.
type hearing struct {
	credentials.TransportCredentials
	heard func(bytes int)
}

func (h hearing) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return h.TransportCredentials.ClientHandshake(ctx, authority, heardConn{conn, h.heard})
}

func (h hearing) Clone() credentials.TransportCredentials {
	return hearing{h.TransportCredentials.Clone(), h.heard}
}

type heardConn struct {
	net.Conn
	heard func(bytes int)
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard(n)
	}
	return n, err
}

// NewRemote makes a remote; Run connects it.
func NewRemote(address string, conn *grpc.ClientConn, events Events) *Remote {
	return &Remote{address: address, conn: conn, outgoing: make(chan outgoing, queued), bytes: semaphore.NewWeighted(queuedBytes), events: events}
}

// Queued is the number of messages that wait to leave; at 4096 more are lost.
func (r *Remote) Queued() int { return len(r.outgoing) }

// Send queues a consenter's message. It is lost when too many wait.
func (r *Remote) Send(channel string, m consensus.Message) {
	if !r.queue(outgoing{channel: channel, message: m}) {
		m.Settle(false)
	}
}

// Submit queues an envelope for the leader. That it is ordered is seen in the log.
func (r *Remote) Submit(channel string, sequence uint64, env *commonpb.Envelope) error {
	if !r.queue(outgoing{channel: channel, submit: &ordererpb.SubmitRequest{Channel: channel, LastValidationSeq: sequence, Payload: env}}) {
		return ErrOverload
	}
	return nil
}

func (r *Remote) queue(o outgoing) bool {
	if !r.bytes.TryAcquire(o.weight()) {
		return false
	}
	select {
	case r.outgoing <- o:
		return true
	default:
		r.bytes.Release(o.weight())
		return false
	}
}

// Run keeps a stream open until ctx ends. Messages that wait while there is none are lost.
func (r *Remote) Run(ctx context.Context) error {
	defer func() {
		_ = r.conn.Close()
		r.discard()
	}()
	for ctx.Err() == nil {
		err := r.stream(ctx)
		if ctx.Err() != nil {
			return nil // it is not down: the connection is no longer needed
		}
		log.Debugf("stream to %s: %s", r.address, err)
		r.discard() // before Down tells of it: what is handed on from then on waits for the next stream
		r.events.Down(r)
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
	}
	return nil
}

func (r *Remote) discard() {
	for {
		select {
		case o := <-r.outgoing:
			r.bytes.Release(o.weight())
			o.message.Settle(false)
		default:
			return
		}
	}
}

func (r *Remote) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := ordererpb.NewClusterClient(r.conn).Step(ctx)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	go func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				broken <- err
				return
			}
			if refused := response.GetSubmitRes(); refused != nil {
				r.events.Refused(r, refused)
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case o := <-r.outgoing:
			r.bytes.Release(o.weight())
			if err := r.write(stream, o); err != nil {
				return err
			}
		}
	}
}

func (r *Remote) write(stream ordererpb.Cluster_StepClient, o outgoing) error {
	if o.submit != nil {
		return stream.Send(&ordererpb.StepRequest{Payload: &ordererpb.StepRequest_SubmitRequest{SubmitRequest: o.submit}})
	}
	payload, err := proto.Marshal(o.message.Payload)
	if err != nil {
		o.message.Settle(false)
		return err
	}
	err = stream.Send(&ordererpb.StepRequest{Payload: &ordererpb.StepRequest_ConsensusRequest{
		ConsensusRequest: &ordererpb.ConsensusRequest{Channel: o.channel, Payload: payload},
	}})
	o.message.Settle(err == nil)
	return err
}
