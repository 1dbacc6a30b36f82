package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

// Endorse collects endorsements until the chaincode's policy is satisfied, and makes
// the transaction for the client to sign.
func (s *Server) Endorse(ctx context.Context, request *gatewaypb.EndorseRequest) (*gatewaypb.EndorseResponse, error) {
	if err := s.working.enter(); err != nil {
		return nil, err
	}
	defer s.working.leave()
	if len(request.GetProposedTransaction().GetProposalBytes()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the proposed transaction must contain a signed proposal")
	}
	p, err := parseProposal(request.GetProposedTransaction())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	bundle, err := s.defined(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.EndorsementTimeout)
	defer cancel()
	window := s.windows.of(bundle)
	if window != nil {
		err := s.working.wait(func() error { return window.enter(ctx) })
		if errors.Is(err, errFull) {
			return nil, s.working.exceeded()
		}
		if err != nil {
			return nil, contextError(err, codes.Aborted)
		}
	}
	prepared, err := s.endorse(ctx, bundle, p, request.GetEndorsingOrganizations())
	switch {
	case window == nil:
	case err != nil:
		window.leave()
	default:
		window.keep(p.txID)
	}
	if err != nil {
		return nil, err
	}
	return &gatewaypb.EndorseResponse{PreparedTransaction: prepared}, nil
}

// endorse asks the peers of the organisations that the client names, or those that the policy asks for.
func (s *Server) endorse(ctx context.Context, bundle *channelconfig.Bundle, p *proposal, orgs []string) (*commonpb.Envelope, error) {
	c := s.collect(bundle, p)
	var err error
	if len(orgs) > 0 {
		err = c.named(ctx, orgs)
	} else {
		err = c.byPolicy(ctx)
	}
	if err != nil {
		return nil, err
	}
	prepared, err := p.assemble(c.payload, c.endorsements)
	if err != nil {
		return nil, status.Errorf(codes.Aborted, "failed to assemble transaction: %s", err)
	}
	return prepared, nil
}

// defined looks up the channel of a proposal that has to be endorsed, and makes sure that it
// has the chaincode. Fabric's words are those of its discovery service.
func (s *Server) defined(p *proposal) (*channelconfig.Bundle, error) {
	bundle := s.config.Channels.Bundle(p.channel)
	if bundle == nil || bundle.Chaincodes[p.chaincode] == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "no combination of peers can be derived which satisfy the endorsement policy: "+
			"No metadata was found for chaincode %s in channel %s", p.chaincode, p.channel)
	}
	return bundle, nil
}

// named takes the organisations that the client asks for; it answers for their being enough.
func (c *collection) named(ctx context.Context, orgs []string) error {
	orgs = slices.Compact(slices.Sorted(slices.Values(orgs)))
	var unknown []string
	for _, org := range orgs {
		if len(c.server.peers(c.bundle, org)) == 0 {
			unknown = append(unknown, org)
		}
	}
	if len(unknown) > 0 {
		return status.Errorf(codes.Unavailable, "failed to find any endorsing peers for org(s): %s", strings.Join(unknown, ", "))
	}
	if !c.fromOrgs(ctx, orgs) {
		return c.incomplete(ctx)
	}
	return nil
}

// byPolicy endorses in our own organisation first, where that has the chaincode: that settles most policies, and its
// result says whose policies there are to satisfy.
func (c *collection) byPolicy(ctx context.Context) error {
	if err := c.first(ctx); err != nil {
		return err
	}
	chaincodes, err := c.touched()
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	for _, cc := range chaincodes {
		if !c.satisfy(ctx, cc) {
			return c.incomplete(ctx)
		}
	}
	return nil
}

func (c *collection) incomplete(ctx context.Context) error {
	if expired(ctx) {
		return c.failures.fail(codes.DeadlineExceeded, "endorsement timeout expired while collecting endorsements")
	}
	return c.failures.fail(codes.Aborted, "failed to collect enough transaction endorsements, see attached details for more info")
}
