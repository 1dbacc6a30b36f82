// Package configtool is `qioi-ledger config`: it makes, signs and sends updates of a
// channel's configuration.
package configtool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

const (
	maxMessageBytes = 100 << 20
	// callTimeout is for one call; an orderer that is away must not hold the others up.
	callTimeout = 15 * time.Second
	retryPause  = 200 * time.Millisecond
	unsureTries = 5
)

// ErrOvertaken says that another update of the same configuration came first.
var ErrOvertaken = errors.New("another update came first: make this one again")

// client talks to the orderers of a channel under one identity.
type client struct {
	channel   string
	addresses []string
	need      int // need is how many of them must say the same: one where none lies
	creds     credentials.TransportCredentials
	signer    protoutil.Signer
}

func newClient(channel string, addresses []string, need int, tlsCA string, signer protoutil.Signer) (*client, error) {
	c := &client{channel: channel, addresses: addresses, need: need, creds: insecure.NewCredentials(), signer: signer}
	if len(addresses) == 0 {
		return nil, errors.New("the network names no orderer")
	}
	if tlsCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(tlsCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: a PEM certificate is accepted", tlsCA)
	}
	c.creds = credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	return c, nil
}

// each calls one orderer after the other until one succeeds.
func (c *client) each(ctx context.Context, call func(context.Context, ordererpb.AtomicBroadcastClient) error) error {
	var errs []error
	for _, address := range c.addresses {
		if err := c.one(ctx, address, call); err == nil {
			return nil
		} else {
			errs = append(errs, fmt.Errorf("%s: %w", address, err))
		}
	}
	return errors.Join(errs...)
}

func (c *client) one(ctx context.Context, address string, call func(context.Context, ordererpb.AtomicBroadcastClient) error) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c.creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx, ordererpb.NewAtomicBroadcastClient(conn))
}

// current is the configuration in force.
type current struct {
	block      uint64
	hash       string // hash is of the block's header, which stands for all that is in the block
	config     *commonpb.Config
	lastUpdate *commonpb.Envelope
}

// isOf says whether that update has made the configuration.
func (c *current) isOf(update *commonpb.Envelope) bool {
	return c.lastUpdate != nil && bytes.Equal(c.lastUpdate.Payload, update.Payload)
}

// fetch asks for the configuration in force.
func (c *client) fetch(ctx context.Context) (found *current, err error) {
	if c.need > 1 {
		return c.agreed(ctx)
	}
	err = c.each(ctx, func(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) error {
		found, err = c.fetchFrom(ctx, orderer)
		return err
	})
	return found, err
}

func (c *client) fetchFrom(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) (*current, error) {
	newest, err := c.block(ctx, orderer, &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Newest{Newest: &ordererpb.SeekNewest{}}})
	if err != nil {
		return nil, err
	}
	last, _, err := protoutil.OrdererMetadata(newest.GetMetadata())
	if err != nil {
		return nil, err
	}
	block, err := c.block(ctx, orderer, &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: last}}})
	if err != nil {
		return nil, err
	}
	if err := protoutil.CheckBlock(block); err != nil {
		return nil, err
	}
	if _, err := channelconfig.FromBlock(block); err != nil {
		return nil, err
	}
	msg, err := protoutil.ParseEnvelope(block.Data.Data[0])
	if err != nil {
		return nil, err
	}
	var envelope commonpb.ConfigEnvelope
	if err := protoutil.Unmarshal(msg.Data, &envelope); err != nil {
		return nil, err
	}
	hash := protoutil.BlockHeaderHash(block.Header)
	return &current{block: block.Header.Number, hash: string(hash), config: envelope.Config, lastUpdate: envelope.LastUpdate}, nil
}

// block asks for one block.
func (c *client) block(ctx context.Context, orderer ordererpb.AtomicBroadcastClient, at *ordererpb.SeekPosition) (*commonpb.Block, error) {
	seek, err := proto.Marshal(&ordererpb.SeekInfo{Start: at, Stop: at, Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY})
	if err != nil {
		return nil, err
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, c.channel, c.signer, nil, seek)
	if err != nil {
		return nil, err
	}
	stream, err := orderer.Deliver(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(env); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if answer.GetBlock() == nil {
		return nil, fmt.Errorf("no block: %s", answer.GetStatus())
	}
	return answer.GetBlock(), nil
}

var (
	// errBehind is an orderer's that has refused an update because it does not have the configuration yet that it was made of.
	errBehind = errors.New("it is behind the others")
	errUnseen = errors.New("it does not have it yet")
)

// send brings an update about, and returns the configuration that it became. An orderer
// that is away, without a leader or behind is no reason to give up before ctx ends. madeOf is the
// sequence of the configuration that the update was made of.
func (c *client) send(ctx context.Context, update *commonpb.ConfigUpdateEnvelope, madeOf uint64) (*current, error) {
	data, err := proto.Marshal(update)
	if err != nil {
		return nil, err
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG_UPDATE, c.channel, c.signer, nil, data)
	if err != nil {
		return nil, err
	}
	if c.need > 1 {
		return c.sendToMany(ctx, env, madeOf)
	}
	// Once it was sent without an answer that says what became of it, it may be in force already: a refusal of the
	// next try can then mean just that, by an orderer that knows it before the one that is asked for what is in force.
	unsure, refusals := false, 0
	for {
		var told *ordererpb.BroadcastResponse
		var now *current
		var err error // of asking what is in force
		sendErr := c.each(ctx, func(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) (err error) {
			var sent bool
			if told, sent, err = broadcast(ctx, orderer, env); err != nil {
				unsure = unsure || sent
				return err
			}
			now, err = c.fetchFrom(ctx, orderer)
			switch {
			case told.Status == commonpb.Status_SUCCESS:
				return nil
			case err == nil && now.config.Sequence < madeOf:
				return errBehind
			}
			return err
		})
		if sendErr == nil && told.Status == commonpb.Status_SUCCESS && (now == nil || !now.isOf(env)) {
			return c.await(ctx, env, madeOf)
		}
		// Whatever was said: what counts is whether it is in force.
		if now == nil {
			now, err = c.fetch(ctx)
		}
		if err == nil && now.isOf(env) {
			return now, nil
		}
		if sendErr == nil && told.Status < commonpb.Status_INTERNAL_SERVER_ERROR {
			if refusals++; !unsure || refusals > unsureTries {
				return nil, fmt.Errorf("refused: %s: %s", told.Status, told.Info)
			}
		}
		if !pause(ctx) {
			return nil, outOfTime(ctx, told, sendErr, err)
		}
	}
}

// await waits until an update that is ordered is in force. Orderers by Kafka or a sequencer say that it is ordered before
// they have read it back; sent again, it would be ordered once more. Another update that is in force may have come first, and
// this one with it, or after it.
func (c *client) await(ctx context.Context, env *commonpb.Envelope, madeOf uint64) (now *current, err error) {
	for others := 0; ; {
		err = c.each(ctx, func(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) (err error) {
			if now, err = c.fetchFrom(ctx, orderer); err == nil && now.config.Sequence <= madeOf {
				return errUnseen
			}
			return err
		})
		switch {
		case err == nil && now.isOf(env):
			return now, nil
		case err == nil:
			if others++; others > unsureTries {
				return nil, ErrOvertaken
			}
		}
		if !pause(ctx) {
			return nil, errors.Join(ctx.Err(), fmt.Errorf("the update is ordered: %w", cmp.Or(err, ErrOvertaken)))
		}
	}
}

// outOfTime says what the last try came to.
func outOfTime(ctx context.Context, told *ordererpb.BroadcastResponse, sendErr, err error) error {
	if sendErr == nil && told.Status != commonpb.Status_SUCCESS {
		sendErr = fmt.Errorf("%s: %s", told.Status, told.Info)
	}
	return errors.Join(ctx.Err(), sendErr, err)
}

// broadcast errs where another orderer may do better; sent says whether this one may have ordered it all the same.
func broadcast(ctx context.Context, orderer ordererpb.AtomicBroadcastClient, env *commonpb.Envelope) (response *ordererpb.BroadcastResponse, sent bool, err error) {
	stream, err := orderer.Broadcast(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := stream.Send(env); err != nil {
		return nil, true, err
	}
	response, err = stream.Recv()
	if err == nil && response.Status >= commonpb.Status_INTERNAL_SERVER_ERROR {
		err = fmt.Errorf("%s: %s", response.Status, response.Info)
	}
	return response, true, err
}
