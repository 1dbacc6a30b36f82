package gateway

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
)

// collection is the endorsements of one proposal, as they come in.
type collection struct {
	server   *Server
	bundle   *channelconfig.Bundle
	proposal *proposal

	mu           sync.Mutex
	payload      []byte // of the first endorsement: all others must equal it
	identities   []*identity.Identity
	endorsements []*peerpb.Endorsement
	tried        map[string]bool // addresses
	failures     failures
	refused      bool // a failure is of a peer that could be asked and has the chaincode
}

func (s *Server) collect(bundle *channelconfig.Bundle, p *proposal) *collection {
	return &collection{server: s, bundle: bundle, proposal: p, tried: map[string]bool{}}
}

// self is this peer's own endorser.
func (s *Server) self() node { return node{address: s.config.Address, mspID: s.config.MSPID} }

// peers are an organisation's, this one first when it is ours.
func (s *Server) peers(bundle *channelconfig.Bundle, mspID string) []node {
	org, ok := bundle.Orgs[mspID]
	if !ok {
		return nil
	}
	var out []node
	if mspID == s.config.MSPID {
		out = append(out, s.self())
	}
	for _, address := range org.Peers {
		if address != s.config.Address {
			out = append(out, node{address: address, mspID: mspID, roots: org.TLSRoots})
		}
	}
	return out
}

// process asks one peer to endorse the proposal.
func (s *Server) process(ctx context.Context, n node, signed *peerpb.SignedProposal) (*peerpb.ProposalResponse, error) {
	if n.local() {
		return s.config.Endorser.ProcessProposal(ctx, signed)
	}
	conn, err := s.dialer.conn(n)
	if err != nil {
		return nil, err
	}
	defer conn.release()
	return peerpb.NewEndorserClient(conn).ProcessProposal(ctx, signed)
}

// next is a peer of the organisation that was not asked yet.
func (c *collection) next(mspID string) (node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.server.peers(c.bundle, mspID) {
		if !c.tried[n.address] {
			c.tried[n.address] = true
			return n, true
		}
	}
	return node{}, false
}

// available counts the peers of an organisation that were not asked yet.
func (c *collection) available(mspID string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, n := range c.server.peers(c.bundle, mspID) {
		if !c.tried[n.address] {
			count++
		}
	}
	return count
}

// fromOrg gets one endorsement of an organisation, from whichever of its peers gives one.
func (c *collection) fromOrg(ctx context.Context, mspID string) bool {
	for ctx.Err() == nil {
		n, ok := c.next(mspID)
		if !ok {
			return false
		}
		response, err := c.server.process(ctx, n, c.proposal.signed)
		if result := judge(n, response, err); result.message != "" || result.code != 0 {
			c.mu.Lock()
			c.failures.add(n, result.message)
			c.refused = c.refused || !result.absent
			c.mu.Unlock()
			if !result.retry {
				return false
			}
			continue
		}
		return c.take(n, response)
	}
	return false
}

// take keeps an endorsement. One of another result is useless: a transaction has one result.
func (c *collection) take(n node, response *peerpb.ProposalResponse) bool {
	id, err := c.bundle.MSP.Deserialize(response.GetEndorsement().GetEndorser())
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.refused = true
		c.failures.add(n, fmt.Sprintf("its endorsement is not by a member of the channel: %s", err))
		return false
	case c.payload == nil:
		c.payload = response.GetPayload()
	case !bytes.Equal(c.payload, response.GetPayload()):
		c.failures.add(n, "ProposalResponsePayloads do not match"+difference(c.payload, response.GetPayload()))
		return false
	}
	for _, known := range c.identities {
		if known.Same(id) { // counts once, and would be refused twice
			return true
		}
	}
	c.identities = append(c.identities, id)
	c.endorsements = append(c.endorsements, response.GetEndorsement())
	return true
}

// first gets the first endorsement. Where no peer of our own organisation has the chaincode, the others that the policy
// names are asked in turn, unless the proposal carries data that the client must say for whom it is.
func (c *collection) first(ctx context.Context) error {
	own := c.server.config.MSPID
	got := c.fromOrg(ctx, own)
	if !got && !c.refused && !expired(ctx) && c.proposal.transient {
		return c.failures.fail(codes.FailedPrecondition, "no endorsers found in the gateway's organization; "+
			"retry specifying endorsing organization(s) to protect transient data")
	}
	for _, mspID := range c.bundle.Chaincodes[c.proposal.chaincode].Organisations {
		if got || c.refused || expired(ctx) {
			break
		}
		got = mspID != own && c.fromOrg(ctx, mspID)
	}
	switch {
	case got:
		return nil
	case expired(ctx):
		return c.failures.fail(codes.DeadlineExceeded, "endorsement timeout expired while collecting first endorsement")
	default:
		return c.failures.fail(codes.Aborted, "failed to endorse transaction, see attached details for more info")
	}
}

// fromOrgs asks organisations in parallel, those that are named twice for two endorsements.
func (c *collection) fromOrgs(ctx context.Context, mspIDs []string) bool {
	if len(mspIDs) == 1 {
		return c.fromOrg(ctx, mspIDs[0])
	}
	results := make([]bool, len(mspIDs))
	var wg sync.WaitGroup
	for i, mspID := range mspIDs {
		wg.Go(func() { results[i] = c.fromOrg(ctx, mspID) })
	}
	wg.Wait()
	for _, ok := range results {
		if !ok {
			return false
		}
	}
	return true
}

// satisfy adds to the endorsements until they satisfy a chaincode's policy.
func (c *collection) satisfy(ctx context.Context, cc *channelconfig.Chaincode) bool {
	if cc.Policy.Evaluate(c.identities) {
		return true
	}
	for _, layout := range c.preferred(cc.Layouts()) {
		missing, possible := c.missing(layout)
		if !possible {
			continue
		}
		if c.fromOrgs(ctx, missing) && cc.Policy.Evaluate(c.identities) {
			return true
		}
		if expired(ctx) {
			return false
		}
	}
	return c.widen(ctx, cc)
}

// widen asks those organisations of a policy that were not asked, one after the other, until the endorsements satisfy
// it. Where many organisations can endorse, the layouts do not have every choice.
func (c *collection) widen(ctx context.Context, cc *channelconfig.Chaincode) bool {
	for _, mspID := range cc.Organisations {
		if c.available(mspID) < len(c.server.peers(c.bundle, mspID)) {
			continue
		}
		if c.fromOrg(ctx, mspID) && cc.Policy.Evaluate(c.identities) {
			return true
		}
		if expired(ctx) {
			return false
		}
	}
	return false
}

// preferred puts those layouts first that use what we have.
func (c *collection) preferred(layouts []policy.Layout) []policy.Layout {
	var with, without []policy.Layout
	for _, layout := range layouts {
		uses := false
		for principal := range layout {
			for _, id := range c.identities {
				uses = uses || id.MSPID == principal.MSPID
			}
		}
		if uses {
			with = append(with, layout)
		} else {
			without = append(without, layout)
		}
	}
	return append(with, without...)
}

// missing lists the organisations to ask for a layout, or says that it cannot be had.
func (c *collection) missing(layout policy.Layout) (mspIDs []string, possible bool) {
	need := map[string]int{}
	for principal, n := range layout {
		if principal.Role != identity.Peer && principal.Role != identity.Member {
			return nil, false // endorsers are peers
		}
		need[principal.MSPID] += n
	}
	for _, id := range c.identities {
		need[id.MSPID]--
	}
	for mspID, n := range need {
		if n > c.available(mspID) {
			return nil, false
		}
		for range n {
			mspIDs = append(mspIDs, mspID)
		}
	}
	return mspIDs, true
}

// touched lists the chaincodes whose state the simulation used, the invoked one first:
// the policy of each must be satisfied.
func (c *collection) touched() ([]*channelconfig.Chaincode, error) {
	action, err := actionOf(c.payload)
	if err != nil {
		return nil, err
	}
	var sets rwsetpb.TxReadWriteSet
	if err := protoutil.Unmarshal(action.GetResults(), &sets); err != nil {
		return nil, err
	}
	names := []string{c.proposal.chaincode}
	for _, set := range sets.NsRwset {
		if set.Namespace != names[0] {
			names = append(names, set.Namespace)
		}
	}
	var out []*channelconfig.Chaincode
	for _, name := range names {
		cc := c.bundle.Chaincodes[name]
		if cc == nil {
			return nil, fmt.Errorf("chaincode %s is not defined on channel %s", name, c.bundle.ChannelID)
		}
		out = append(out, cc)
	}
	return out, nil
}

// difference says in what two simulations differ, as far as that fits into a message.
func difference(a, b []byte) string {
	one, err := actionOf(a)
	if err != nil {
		return ""
	}
	other, err := actionOf(b)
	if err != nil {
		return ""
	}
	switch {
	case !bytes.Equal(one.Results, other.Results):
		return ": the read/write sets differ"
	case !bytes.Equal(one.Response.GetPayload(), other.Response.GetPayload()), one.Response.GetStatus() != other.Response.GetStatus(),
		one.Response.GetMessage() != other.Response.GetMessage():
		return ": the chaincode's responses differ"
	case !bytes.Equal(one.Events, other.Events):
		return ": the chaincode's events differ"
	default:
		return ""
	}
}
