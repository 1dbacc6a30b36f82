package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

const accepted = "AND('Org1MSP.peer',…), OR(…) and OutOf(N,…), nested, with the roles member, admin, client, peer and orderer, are accepted"

// Parse reads the string form that Fabric's tools take, for example
// AND('Org1MSP.peer', OutOf(1, 'Org2MSP.member', 'Org3MSP.admin')).
func Parse(text string) (*commonpb.SignaturePolicyEnvelope, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%w %q: not UTF-8", ErrMalformed, text)
	}
	p := &parser{rest: text, index: map[Principal]int32{}}
	rule, err := p.rule(0)
	if err == nil && p.skip() != "" {
		err = fmt.Errorf("%q is left over", p.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w; %s", ErrMalformed, text, err, accepted)
	}
	return &commonpb.SignaturePolicyEnvelope{Rule: rule, Identities: p.identities}, nil
}

func outOf(n int32, rules []*commonpb.SignaturePolicy) *commonpb.SignaturePolicy {
	return &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_NOutOf_{
		NOutOf: &commonpb.SignaturePolicy_NOutOf{N: n, Rules: rules},
	}}
}

type parser struct {
	rest       string
	index      map[Principal]int32
	identities []*commonpb.MSPPrincipal
}

func (p *parser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	return p.rest
}

func (p *parser) take(token string) bool {
	if !strings.HasPrefix(p.skip(), token) {
		return false
	}
	p.rest = p.rest[len(token):]
	return true
}

func (p *parser) rule(depth int) (*commonpb.SignaturePolicy, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels", maxDepth)
	}
	for _, quote := range []string{"'", `"`} {
		if p.take(quote) {
			return p.principal(quote)
		}
	}
	open := strings.IndexByte(p.skip(), '(')
	if open < 0 {
		return nil, fmt.Errorf("at %q a principal or a function is missing", p.rest)
	}
	name := strings.TrimSpace(p.rest[:open])
	p.rest = p.rest[open+1:]
	n := int32(0)
	if strings.EqualFold(name, "OutOf") {
		number, rest, ok := strings.Cut(p.rest, ",")
		parsed, err := strconv.ParseInt(strings.Trim(strings.TrimSpace(number), `'"`), 10, 32)
		if !ok || err != nil {
			return nil, fmt.Errorf("OutOf starts with %q, not with a number", number)
		}
		n, p.rest = int32(parsed), rest
	} else if !strings.EqualFold(name, "AND") && !strings.EqualFold(name, "OR") {
		return nil, fmt.Errorf("unknown function %q", name)
	}
	rules, err := p.arguments(depth)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.EqualFold(name, "AND"):
		n = int32(len(rules))
	case strings.EqualFold(name, "OR"):
		n = 1
	case n < 1 || int(n) > len(rules):
		return nil, fmt.Errorf("OutOf(%d) of %d rules", n, len(rules))
	}
	return outOf(n, rules), nil
}

func (p *parser) arguments(depth int) ([]*commonpb.SignaturePolicy, error) {
	var rules []*commonpb.SignaturePolicy
	for {
		rule, err := p.rule(depth + 1)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
		if len(rules) > maxRules {
			return nil, fmt.Errorf("more than %d rules", maxRules)
		}
		if p.take(")") {
			return rules, nil
		}
		if !p.take(",") {
			return nil, fmt.Errorf("at %q a comma or a closing bracket is missing", p.rest)
		}
	}
}

func (p *parser) principal(quote string) (*commonpb.SignaturePolicy, error) {
	name, rest, closed := strings.Cut(p.rest, quote)
	dot := strings.LastIndexByte(name, '.')
	if !closed || dot <= 0 {
		return nil, fmt.Errorf("principal '%s' is not of the form 'MSPID.role'", name)
	}
	p.rest = rest
	for _, role := range []identity.Role{identity.Member, identity.Admin, identity.Client, identity.Peer, identity.Orderer} {
		if strings.EqualFold(name[dot+1:], role.String()) {
			return p.signedBy(Principal{MSPID: name[:dot], Role: role}), nil
		}
	}
	return nil, fmt.Errorf("principal '%s' has an unknown role", name)
}

func (p *parser) signedBy(principal Principal) *commonpb.SignaturePolicy {
	at, ok := p.index[principal]
	if !ok {
		at = int32(len(p.identities))
		p.index[principal] = at
		p.identities = append(p.identities, toWire(principal))
	}
	return &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_SignedBy{SignedBy: at}}
}

func toWire(p Principal) *commonpb.MSPPrincipal {
	role := &commonpb.MSPRole{MspIdentifier: p.MSPID}
	for wire, ours := range fromWire {
		if ours == p.Role {
			role.Role = wire
		}
	}
	raw, err := proto.Marshal(role)
	if err != nil {
		panic(err) // two fields of valid types always marshal
	}
	return &commonpb.MSPPrincipal{PrincipalClassification: commonpb.MSPPrincipal_ROLE, Principal: raw}
}
