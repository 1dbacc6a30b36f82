package gateway

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// ChaincodeEvents streams the events of one chaincode, a message for each block that
// has any, from a block on and after a transaction that the client has seen.
func (s *Server) ChaincodeEvents(signed *gatewaypb.SignedChaincodeEventsRequest, stream grpc.ServerStreamingServer[gatewaypb.ChaincodeEventsResponse]) error {
	if err := s.waiting.enter(); err != nil {
		return err
	}
	defer s.waiting.leave()
	if len(signed.GetRequest()) == 0 {
		return status.Error(codes.InvalidArgument, "a chaincode events request is required")
	}
	var request gatewaypb.ChaincodeEventsRequest
	if err := protoutil.Unmarshal(signed.GetRequest(), &request); err != nil {
		return status.Errorf(codes.InvalidArgument, "invalid chaincode events request: %v", err)
	}
	if err := s.authorize(request.GetChannelId(), request.GetIdentity(), signed.GetRequest(), signed.GetSignature()); err != nil {
		return err
	}
	number, err := s.startBlock(&request)
	if err != nil {
		return err
	}
	filter := eventFilter{chaincode: request.GetChaincodeId(), after: request.GetAfterTransactionId()}
	for ; ; number++ {
		block, err := s.config.Blocks.Block(stream.Context(), request.GetChannelId(), number)
		if err != nil {
			return contextError(err, codes.Aborted)
		}
		events := filter.of(block)
		if len(events) == 0 {
			continue
		}
		if bundle := s.config.Channels.Bundle(request.GetChannelId()); bundle != nil {
			if _, err := bundle.Admits(request.GetIdentity(), readers); err != nil {
				return accessDenied(request.GetChannelId(), err)
			}
		}
		if err := stream.Send(&gatewaypb.ChaincodeEventsResponse{Events: events, BlockNumber: number}); err != nil {
			if errors.Is(err, io.EOF) {
				return status.Error(codes.Canceled, err.Error())
			}
			return err
		}
	}
}

func (s *Server) startBlock(request *gatewaypb.ChaincodeEventsRequest) (uint64, error) {
	if after := request.GetAfterTransactionId(); after != "" {
		number, ok, err := s.config.Blocks.BlockOf(request.GetChannelId(), after)
		if err != nil { // from another place on, events would be lost
			return 0, status.Error(codes.Aborted, err.Error())
		}
		if ok {
			return number, nil
		}
	}
	switch seek := request.GetStartPosition().GetType().(type) {
	case nil, *ordererpb.SeekPosition_NextCommit:
		height, err := s.config.Blocks.Height(request.GetChannelId())
		if err != nil {
			return 0, status.Error(codes.Aborted, err.Error())
		}
		return height, nil
	case *ordererpb.SeekPosition_Specified:
		return seek.Specified.GetNumber(), nil
	default:
		return 0, status.Errorf(codes.InvalidArgument, "invalid start position type: %T", seek)
	}
}

// eventFilter picks events out of blocks.
type eventFilter struct {
	chaincode string
	after     string // skip everything up to this transaction; empty: nothing
}

func (f *eventFilter) of(block *commonpb.Block) []*peerpb.ChaincodeEvent {
	var flags []byte
	if slots := block.GetMetadata().GetMetadata(); len(slots) > int(commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER) {
		flags = slots[commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER]
	}
	var events []*peerpb.ChaincodeEvent
	for i, tx := range block.GetData().GetData() {
		code := peerpb.TxValidationCode_NOT_VALIDATED
		if i < len(flags) {
			code = peerpb.TxValidationCode(flags[i])
		}
		if f.after != "" { // valid or not, with an event or not; but a copy of the id is not the transaction
			if msg, err := protoutil.ParseEnvelope(tx); err == nil && msg.Channel.GetTxId() == f.after && validate.ClaimsID(code) {
				f.after = ""
			}
			continue
		}
		if code != peerpb.TxValidationCode_VALID {
			continue
		}
		if event := eventOf(tx); event != nil && event.GetChaincodeId() == f.chaincode {
			events = append(events, event)
		}
	}
	return events
}

// eventOf reads the event of a transaction that the ledger holds as valid; nil when it has none.
func eventOf(raw []byte) *peerpb.ChaincodeEvent {
	msg, err := protoutil.ParseEnvelope(raw)
	if err != nil || msg.Channel.GetType() != int32(commonpb.HeaderType_ENDORSER_TRANSACTION) {
		return nil
	}
	var tx peerpb.Transaction
	var payload peerpb.ChaincodeActionPayload
	if protoutil.Unmarshal(msg.Data, &tx) != nil || len(tx.Actions) == 0 || protoutil.Unmarshal(tx.Actions[0].Payload, &payload) != nil {
		return nil
	}
	action, err := actionOf(payload.GetAction().GetProposalResponsePayload())
	if err != nil || len(action.GetEvents()) == 0 {
		return nil
	}
	event := &peerpb.ChaincodeEvent{}
	if protoutil.Unmarshal(action.GetEvents(), event) != nil {
		return nil
	}
	return event
}
