package gateway

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

// readers is the policy that Fabric asks for both (gateway/CommitStatus, gateway/ChaincodeEvents).
const readers = channelconfig.ApplicationReaders

// CommitStatus tells the fate of a transaction; it waits for one that is not committed yet.
func (s *Server) CommitStatus(ctx context.Context, signed *gatewaypb.SignedCommitStatusRequest) (*gatewaypb.CommitStatusResponse, error) {
	if err := s.waiting.enter(); err != nil {
		return nil, err
	}
	defer s.waiting.leave()
	if len(signed.GetRequest()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a commit status request is required")
	}
	var request gatewaypb.CommitStatusRequest
	if err := protoutil.Unmarshal(signed.GetRequest(), &request); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid status request: %v", err)
	}
	if err := s.authorize(request.GetChannelId(), request.GetIdentity(), signed.GetRequest(), signed.GetSignature()); err != nil {
		return nil, err
	}
	code, block, err := s.config.Commits.Status(ctx, request.GetChannelId(), request.GetTransactionId())
	if err != nil {
		return nil, contextError(err, codes.Aborted)
	}
	return &gatewaypb.CommitStatusResponse{Result: code, BlockNumber: block}, nil
}

// authorize checks that a reader of the application has signed a request.
func (s *Server) authorize(channelID string, creator, request, signature []byte) error {
	bundle := s.config.Channels.Bundle(channelID)
	if bundle == nil {
		return status.Errorf(codes.PermissionDenied, "channel '%s' not found", channelID)
	}
	id, err := bundle.Admits(creator, readers)
	if err == nil {
		err = id.Verify(request, signature)
	}
	if err != nil {
		return accessDenied(channelID, err)
	}
	return nil
}

func accessDenied(channelID string, err error) error {
	return status.Errorf(codes.PermissionDenied, "access denied: channel [%s]: %s", channelID, err)
}
