package orderer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// Deliver serves sealed blocks for signed SeekInfo envelopes, Fabric's way.
func (n *Node) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	defer n.metrics.delivered.Stream()()
	for counted := false; ; {
		env, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ch, msg, err := n.openRequest(stream.Context(), env)
		if err == nil && !counted {
			counted = true
			leave, err := n.enter(stream.Context(), "/orderer.AtomicBroadcast", msg)
			if err != nil {
				return err
			}
			defer leave()
		}
		if err == nil {
			err = n.deliver(stream, ch, msg)
		}
		if stream.Context().Err() != nil {
			return stream.Context().Err()
		}
		answer := &ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Status{Status: statusOf(err)}}
		if err := stream.Send(answer); err != nil {
			return err
		}
		if err != nil {
			log.Debugf("deliver: %s", err)
			return nil
		}
	}
}

// enter counts a reader's stream. Other consenters are no readers: who reads must not keep them from what they lack.
func (n *Node) enter(ctx context.Context, service string, request *protoutil.Message) (leave func(), err error) {
	if certificate := peerCertificate(ctx); certificate != nil && n.hears(certificate) {
		return func() {}, nil
	}
	var creator msppb.SerializedIdentity
	if err := protoutil.Unmarshal(request.Signature.Creator, &creator); err != nil {
		return nil, err
	}
	return n.readers.Enter(service, creator.Mspid)
}

func (n *Node) deliver(stream ordererpb.AtomicBroadcast_DeliverServer, ch *channel, msg *protoutil.Message) (err error) {
	sent, end := n.metrics.delivered.Request(ch.name, "block")
	defer func() { end(err == nil) }()
	var seek ordererpb.SeekInfo
	if err := protoutil.Unmarshal(msg.Data, &seek); err != nil {
		return err
	}
	from, last, err := protoutil.SeekRange(&seek, ch.Height())
	if err != nil {
		return err
	}
	for number := from; ; number++ {
		if err := ch.untilBlock(stream.Context(), number, seek.Behavior); err != nil {
			return err
		}
		block, err := ch.Block(number)
		if err == nil {
			err = ch.admits(msg)
		}
		if err != nil {
			return err
		}
		// As in Fabric: who reads headers needs configurations to know who may sign the next ones.
		if seek.ContentType == ordererpb.SeekInfo_HEADER_WITH_SIG && !channelconfig.IsConfigBlock(block) {
			block = &commonpb.Block{Header: block.Header, Metadata: block.Metadata}
		}
		if err := stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: block}}); err != nil {
			return err
		}
		sent()
		if number == last {
			return nil
		}
	}
}

// openRequest checks a request for a channel's transactions, and its sender.
func (n *Node) openRequest(ctx context.Context, env *commonpb.Envelope) (*channel, *protoutil.Message, error) {
	msg, err := protoutil.OpenEnvelope(env)
	if err != nil {
		return nil, nil, err
	}
	if commonpb.HeaderType(msg.Channel.Type) != commonpb.HeaderType_DELIVER_SEEK_INFO {
		return nil, nil, fmt.Errorf("%w: header type %d, DELIVER_SEEK_INFO is accepted", protoutil.ErrMalformed, msg.Channel.Type)
	}
	if err := msg.CheckTime(); err != nil {
		return nil, nil, err
	}
	ch, err := n.channel(msg.Channel.ChannelId)
	if err != nil {
		return nil, nil, err
	}
	if err := checkSigned(ch.Bundle(), channelconfig.ChannelReaders, msg); err != nil {
		return nil, nil, err
	}
	n.strangers.Knows(ctx)
	return ch, msg, nil
}

// admits checks that a reader may go on.
func (ch *channel) admits(msg *protoutil.Message) error {
	if _, err := ch.Bundle().Admits(msg.Signature.Creator, channelconfig.ChannelReaders); err != nil {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return nil
}

var errNotReady = fmt.Errorf("%w: the block does not exist yet", chain.ErrPosition)

func (ch *channel) untilBlock(ctx context.Context, number uint64, behavior ordererpb.SeekInfo_SeekBehavior) error {
	for {
		sealed := ch.UntilSealed() // before Height, so that no seal falls between
		if number < ch.Height() {
			return nil
		}
		if behavior == ordererpb.SeekInfo_FAIL_IF_NOT_READY {
			return errNotReady
		}
		select {
		case <-sealed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Follow serves transactions as they are ordered, and the seals between them, without end.
func (n *Node) Follow(env *commonpb.Envelope, stream streampb.Stream_FollowServer) error {
	ch, msg, err := n.openRequest(stream.Context(), env)
	if err != nil {
		return followError(err)
	}
	leave, err := n.enter(stream.Context(), "/qioi.stream.Stream", msg)
	if err != nil {
		return err
	}
	defer leave()
	var position streampb.Position
	if err := protoutil.Unmarshal(msg.Data, &position); err != nil {
		return followError(err)
	}
	at, read := chain.Position{Block: position.Block, Tx: position.Tx}, ch.Read
	if position.Words {
		if !ch.Bundle().Orderer.Trust().Hashes() {
			return status.Error(codes.FailedPrecondition, "running hashes are told where orderers may lie, in stream mode")
		}
		read = ch.Word
	}
	for {
		if ch.part() == nil {
			return followError(errNotConsenter) // this orderer has whole blocks only: consenters are faster
		}
		batch, next, err := read(stream.Context(), at)
		if err == nil {
			err = ch.admits(msg)
		}
		if err != nil {
			return followError(err)
		}
		batch.Leader = ch.leaderHint()
		if err := stream.Send(batch); err != nil {
			return err
		}
		at = next
	}
}

func followError(err error) error {
	switch statusOf(err) {
	case commonpb.Status_FORBIDDEN:
		return status.Error(codes.PermissionDenied, told(err))
	case commonpb.Status_NOT_FOUND:
		return status.Error(codes.NotFound, told(err))
	case commonpb.Status_BAD_REQUEST:
		return status.Error(codes.InvalidArgument, told(err))
	default:
		return status.Error(codes.Unavailable, told(err))
	}
}
