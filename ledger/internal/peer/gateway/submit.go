package gateway

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// envelopeBytes is the most that surrounds payload and signature: two tags, two lengths.
const envelopeBytes = 12

// Submit hands a signed transaction to the ordering service. It succeeds only when an
// orderer said SUCCESS, or, where orderers may lie, one more than may. An orderer that fails after it was handed the transaction may
// still order it; the next one gets the same envelope, and its transaction id lets it
// count once.
func (s *Server) Submit(ctx context.Context, request *gatewaypb.SubmitRequest) (*gatewaypb.SubmitResponse, error) {
	if err := s.working.enter(); err != nil {
		return nil, err
	}
	defer s.working.leave()
	tx := request.GetPreparedTransaction()
	if tx == nil {
		return nil, status.Error(codes.InvalidArgument, "a prepared transaction is required")
	}
	if len(tx.GetSignature()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "prepared transaction must be signed")
	}
	bundle := s.config.Channels.Bundle(request.GetChannelId())
	if bundle == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "channel '%s' not found", request.GetChannelId())
	}
	// The orderer would say the same, but a message beyond its transport's limit would also
	// break the stream that others share: so also what an envelope holds besides counts.
	size, limit := max(len(tx.GetPayload())+len(tx.GetSignature()), proto.Size(tx)-envelopeBytes), bundle.Orderer.AbsoluteMaxBytes
	if size > limit {
		return nil, status.Error(codes.Aborted, unsuccessful(&ordererpb.BroadcastResponse{
			Status: commonpb.Status_BAD_REQUEST,
			Info:   fmt.Sprintf("message payload is %d bytes and exceeds maximum allowed %d bytes", size, limit),
		}))
	}
	window, id := s.windows.of(bundle), ""
	if window != nil {
		id = transactionID(tx)
	}
	placed := window != nil && window.take(id)
	var response *gatewaypb.SubmitResponse
	var err error
	orderers := s.cast.cluster(bundle)
	if need := orderers.bundle.Orderer.Trust().Answers; need > 1 { // as many as those orderers take, which may be newer
		response, err = submitToMany(ctx, orderers, tx, need)
	} else {
		response, err = s.submit(ctx, orderers, tx)
	}
	switch {
	case !placed:
	case err != nil:
		window.leave()
	default:
		go s.watchCommit(window, bundle.ChannelID, id)
	}
	return response, err
}

func (s *Server) submit(ctx context.Context, orderers *cluster, tx *commonpb.Envelope) (*gatewaypb.SubmitResponse, error) {
	count := len(orderers.orderers)
	if count == 0 {
		return nil, status.Error(codes.Unavailable, "no orderer nodes available")
	}
	var failed failures
	first := int(orderers.preferred.Load())
	for i := range count {
		index := (first + i) % count
		o := orderers.orderers[index]
		response, err := o.broadcast(ctx, tx)
		if err != nil && expired(ctx) {
			return nil, failed.fail(codes.DeadlineExceeded, "submit timeout expired while broadcasting to ordering service")
		}
		if errors.Is(err, errBacklog) {
			failed.add(o.node, err.Error())
			return nil, failed.fail(codes.ResourceExhausted, err.Error())
		}
		if err != nil {
			failed.add(o.node, err.Error())
			log.Debugf("[%s] orderer %s: %s", orderers.bundle.ChannelID, o.address, err)
			continue
		}
		if response.GetStatus() == commonpb.Status_SUCCESS {
			orderers.prefer(index, response)
			return &gatewaypb.SubmitResponse{}, nil
		}
		message := unsuccessful(response)
		failed.add(o.node, message)
		switch {
		case protoutil.Exhausted(response.GetInfo()):
			// All orderers feed one leader: to ask the others would add to its load.
			return nil, failed.fail(codes.ResourceExhausted, message)
		case response.GetStatus() >= 400 && response.GetStatus() < 500: // the client's fault: all would say so
			return nil, failed.fail(codes.Aborted, message)
		}
	}
	return nil, failed.fail(codes.Unavailable, "no orderers could successfully process transaction")
}

// transactionID is a transaction's own, whatever its client calls it; empty where it has none.
func transactionID(tx *commonpb.Envelope) string {
	msg, err := protoutil.OpenEnvelope(tx)
	if err != nil {
		return ""
	}
	return msg.Channel.GetTxId()
}

func unsuccessful(response *ordererpb.BroadcastResponse) string {
	return fmt.Sprintf("%s: status=%s, info=%s", protoutil.RefusedByOrderer, response.GetStatus(), response.GetInfo())
}
