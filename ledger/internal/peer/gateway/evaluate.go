package gateway

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/query"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Evaluate runs a query on one peer: this one where it can.
func (s *Server) Evaluate(ctx context.Context, request *gatewaypb.EvaluateRequest) (*gatewaypb.EvaluateResponse, error) {
	if err := s.working.enter(); err != nil {
		return nil, err
	}
	defer s.working.leave()
	p, err := parseProposal(request.GetProposedTransaction())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "failed to unpack transaction proposal: %s", err)
	}
	bundle := s.config.Channels.Bundle(p.channel)
	if bundle == nil {
		return nil, status.Errorf(codes.Unavailable, "failed to get config for channel [%s]: could not get last config for channel %s", p.channel, p.channel)
	}
	var candidates []node
	if bundle.Chaincodes[p.chaincode] != nil || channelconfig.IsSystemChaincode(p.chaincode) {
		candidates = s.evaluators(bundle, p, request.GetTargetOrganizations())
	}
	if len(candidates) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "no peers available to evaluate chaincode %s in channel %s", p.chaincode, p.channel)
	}
	ctx, cancel := context.WithTimeout(query.Mark(ctx), s.config.EndorsementTimeout)
	defer cancel()
	var failed failures
	var last verdict
	for _, n := range candidates {
		response, err := s.process(ctx, n, p.signed)
		if last = judge(n, response, err); last.code == codes.OK {
			return &gatewaypb.EvaluateResponse{Result: result(response)}, nil
		}
		if expired(ctx) {
			return nil, failed.fail(codes.DeadlineExceeded, "evaluate timeout expired")
		}
		failed.add(n, last.message)
		if !last.retry {
			return nil, failed.fail(last.code, "evaluate call to endorser returned error: "+last.message)
		}
	}
	return nil, failed.fail(last.code, "failed to evaluate transaction, see attached details for more info")
}

// evaluators lists the peers that may run a query, ours first. Transient data does not
// leave our organisation unless the client names others.
func (s *Server) evaluators(bundle *channelconfig.Bundle, p *proposal, orgs []string) []node {
	if len(orgs) == 0 {
		orgs = []string{s.config.MSPID}
		if !p.transient {
			orgs = slices.Sorted(maps.Keys(bundle.Orgs))
		}
	}
	var out []node
	for _, org := range orgs {
		peers := s.peers(bundle, org)
		if org == s.config.MSPID {
			out = append(peers, out...)
		} else {
			out = append(out, peers...)
		}
	}
	return out
}

// result prefers what was endorsed: the response beside it need not carry the payload.
func result(response *peerpb.ProposalResponse) *peerpb.Response {
	out := response.GetResponse()
	if action, err := actionOf(response.GetPayload()); err == nil && action.GetResponse() != nil {
		out.Payload = action.GetResponse().GetPayload()
	}
	return out
}
