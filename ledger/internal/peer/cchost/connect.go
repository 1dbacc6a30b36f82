package cchost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	// A chaincode that comes back must not wait long, and one that is away must not
	// be hammered.
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	// handshakeTimeout is how long a chaincode may take to register.
	handshakeTimeout = 10 * time.Second
	// sendTimeout is how long a chaincode may leave its stream unread.
	sendTimeout = 10 * time.Second
	// A fixed window, wide enough for hundreds of transactions under way, spares the
	// pings with which gRPC otherwise estimates one.
	windowBytes = 4 << 20
)

// keepConnected dials a chaincode until ctx ends.
func (h *Host) keepConnected(ctx context.Context, cc *chaincode) error {
	creds := insecure.NewCredentials()
	if cc.TLS != nil {
		creds = credentials.NewTLS(cc.TLS)
	}
	client, err := grpc.NewClient(cc.Address, h.config.Pace.Dialer(),
		grpc.WithTransportCredentials(creds),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(h.config.MaxMessageBytes), grpc.MaxCallSendMsgSize(h.config.MaxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: handshakeTimeout,
		}),
		// Fabric's own chaincode servers refuse pings more often than once a minute.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 20 * time.Second}))
	if err != nil {
		return fmt.Errorf("chaincode %s at %s: %w", cc.Name, cc.Address, err)
	}
	defer func() { _ = client.Close() }()
	said := "" // the same failure is logged once
	for wait := minBackoff; ctx.Err() == nil; wait = min(2*wait, maxBackoff) {
		registered, err := h.connectOnce(ctx, client, cc)
		if ctx.Err() != nil {
			break
		}
		if registered {
			wait, said = minBackoff, ""
		}
		if text := err.Error(); text != said {
			log.Warnf("chaincode %s at %s: %s; it is dialled again until it is back", cc.Name, cc.Address, text)
			said = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// connectOnce lives as long as one stream. The error says why it ended.
func (h *Host) connectOnce(ctx context.Context, client *grpc.ClientConn, cc *chaincode) (registered bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client.ResetConnectBackoff() // the pauses are ours
	stream, err := peerpb.NewChaincodeClient(client).Connect(ctx)
	if err != nil {
		return false, err
	}
	overdue := time.AfterFunc(handshakeTimeout, func() { cancel(fmt.Errorf("it has not registered within %s", handshakeTimeout)) })
	defer overdue.Stop()
	conn := newConnection(h, cc.Name, stream)
	if err := conn.handshake(); err != nil {
		return false, because(ctx, err)
	}
	overdue.Stop()
	log.Infof("chaincode %s at %s is connected", cc.Name, cc.Address)
	cc.connection.Store(conn)
	cc.seenOnce.Do(func() { close(cc.seen) })
	defer conn.fail() // callers learn it at once, before anything is dialled again
	defer cc.connection.Store(nil)
	stop := conn.watch(cancel)
	defer stop()
	return true, because(ctx, conn.receive())
}

// because prefers the reason for which we ended the stream to how it ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// handshake takes REGISTER and answers REGISTERED and READY. The chaincode gives its
// package id, NAME:VERSION; the name must be the one that this address is for.
func (c *connection) handshake() error {
	msg, err := c.stream.Recv()
	if err != nil {
		return err
	}
	if msg.GetType() != peerpb.ChaincodeMessage_REGISTER {
		return fmt.Errorf("it began with %s, only REGISTER is accepted", msg.GetType())
	}
	id := &peerpb.ChaincodeID{}
	if err := proto.Unmarshal(msg.GetPayload(), id); err != nil {
		return fmt.Errorf("it registered with something that is not a chaincode id")
	}
	if name, _, _ := strings.Cut(id.GetName(), ":"); name != c.chaincode {
		return fmt.Errorf("it registered as %q, %s or %s:VERSION is accepted", id.GetName(), c.chaincode, c.chaincode)
	}
	offer, err := proto.Marshal(&peerpb.ChaincodeAdditionalParams{
		UseWriteBatch: true, MaxSizeWriteBatch: maxBatch, UseGetMultipleKeys: true, MaxSizeGetMultipleKeys: maxBatch,
		WritesWithCompleted: true,
	})
	if err != nil {
		return err
	}
	if err := c.stream.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_REGISTERED, Payload: offer}); err != nil {
		return err
	}
	return c.stream.Send(&peerpb.ChaincodeMessage{Type: peerpb.ChaincodeMessage_READY})
}

// watch ends the stream when one message could not be sent for too long: a chaincode
// that does not read would block everybody.
func (c *connection) watch(cancel context.CancelCauseFunc) (stop func()) {
	ticker, done := time.NewTicker(sendTimeout/10), make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				if began := c.sending.Load(); began != 0 && now.UnixNano()-began > int64(sendTimeout) {
					cancel(fmt.Errorf("it has not read its messages for %s", sendTimeout))
				}
			}
		}
	}()
	return func() { ticker.Stop(); close(done) }
}
