// Package policy says who must have signed: Fabric's signature policies (nested
// AND, OR and OutOf over roles of organisations and single identities), compiled once and evaluated
// against verified identities. Each identity counts once.
package policy

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
)

// Bounds of a policy. Fabric's own are far smaller in practice.
const (
	maxDepth = 16
	maxRules = 1024
)

// ErrMalformed is what every refused policy wraps.
var ErrMalformed = errors.New("malformed policy")

// Evaluator decides whether a set of identities, each of which has signed, is enough.
type Evaluator interface {
	Evaluate(ids []*identity.Identity) bool
}

// Principal is one signature that a policy may ask for.
type Principal struct {
	MSPID string
	Role  identity.Role
	// Certificate is the digest of the only certificate that will do; zero: whichever has the role.
	Certificate [sha256.Size]byte
}

func (p Principal) String() string {
	if p.single() {
		return fmt.Sprintf("%s:%x", p.MSPID, p.Certificate[:4])
	}
	return p.MSPID + "." + p.Role.String()
}

func (p Principal) single() bool { return p.Certificate != [sha256.Size]byte{} }

func (p Principal) matches(id *identity.Identity) bool {
	if p.single() {
		return id.IsOf(p.MSPID, p.Certificate)
	}
	return id.MSPID == p.MSPID && id.HasRole(p.Role)
}

// Policy is a compiled signature policy. It is immutable.
type Policy struct {
	root       node
	principals []Principal
}

// node is a principal (leaf) or "n of these".
type node struct {
	leaf     int // index into principals; -1 in an inner node
	n        int
	children []node
}

// Compile errs, with ErrMalformed, on a policy that is nested too deeply, refers
// to principals that it does not list, or uses anything but roles and identities.
func Compile(env *commonpb.SignaturePolicyEnvelope) (*Policy, error) {
	if env.GetVersion() != 0 {
		return nil, fmt.Errorf("%w: version %d, only 0 is accepted", ErrMalformed, env.Version)
	}
	p := &Policy{}
	for _, wire := range env.GetIdentities() {
		principal, err := principalOf(wire)
		if err != nil {
			return nil, err
		}
		p.principals = append(p.principals, principal)
	}
	rules := 0
	var err error
	p.root, err = p.compile(env.GetRule(), 0, &rules)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Policy) compile(rule *commonpb.SignaturePolicy, depth int, rules *int) (node, error) {
	if *rules++; depth > maxDepth || *rules > maxRules {
		return node{}, fmt.Errorf("%w: more than %d levels or %d rules", ErrMalformed, maxDepth, maxRules)
	}
	switch kind := rule.GetType().(type) {
	case *commonpb.SignaturePolicy_SignedBy:
		if kind.SignedBy < 0 || int(kind.SignedBy) >= len(p.principals) {
			return node{}, fmt.Errorf("%w: principal %d of %d", ErrMalformed, kind.SignedBy, len(p.principals))
		}
		return node{leaf: int(kind.SignedBy)}, nil
	case *commonpb.SignaturePolicy_NOutOf_:
		out := node{leaf: -1, n: int(kind.NOutOf.GetN())}
		for _, child := range kind.NOutOf.GetRules() {
			compiled, err := p.compile(child, depth+1, rules)
			if err != nil {
				return node{}, err
			}
			out.children = append(out.children, compiled)
		}
		if out.n < 0 || out.n > len(out.children) {
			return node{}, fmt.Errorf("%w: %d out of %d rules", ErrMalformed, out.n, len(out.children))
		}
		return out, nil
	default:
		return node{}, fmt.Errorf("%w: an empty rule", ErrMalformed)
	}
}

func principalOf(wire *commonpb.MSPPrincipal) (Principal, error) {
	switch c := wire.GetPrincipalClassification(); c {
	case commonpb.MSPPrincipal_ROLE:
	case commonpb.MSPPrincipal_IDENTITY:
		return identityOf(wire.Principal)
	default:
		return Principal{}, fmt.Errorf("%w: principal of class %s, only ROLE and IDENTITY are accepted", ErrMalformed, c)
	}
	var role commonpb.MSPRole
	if err := proto.Unmarshal(wire.Principal, &role); err != nil {
		return Principal{}, fmt.Errorf("%w: principal is not an MSPRole", ErrMalformed)
	}
	ours, ok := fromWire[role.Role]
	if !ok || role.MspIdentifier == "" {
		return Principal{}, fmt.Errorf("%w: principal %q of role %d", ErrMalformed, role.MspIdentifier, role.Role)
	}
	return Principal{MSPID: role.MspIdentifier, Role: ours}, nil
}

// Organisations are those that the policy names, sorted.
func (p *Policy) Organisations() []string {
	var found []string
	for _, principal := range p.principals {
		found = append(found, principal.MSPID)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// identityOf is the principal of one identity.
func identityOf(serialized []byte) (Principal, error) {
	var wire msppb.SerializedIdentity
	if err := proto.Unmarshal(serialized, &wire); err != nil || wire.Mspid == "" {
		return Principal{}, fmt.Errorf("%w: principal is not a SerializedIdentity", ErrMalformed)
	}
	block, _ := pem.Decode(wire.IdBytes)
	if block == nil {
		return Principal{}, fmt.Errorf("%w: an identity without a certificate", ErrMalformed)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Principal{}, fmt.Errorf("%w: an identity's certificate: %w", ErrMalformed, err)
	}
	return Principal{MSPID: wire.Mspid, Certificate: identity.CertificateDigest(cert)}, nil
}

// CheckOrganisations refuses a policy that names an organisation other than the known ones: no member of
// it could ever sign.
func CheckOrganisations(env *commonpb.SignaturePolicyEnvelope, known []string) error {
	for _, wire := range env.GetIdentities() {
		p, err := principalOf(wire)
		if err != nil {
			return err
		}
		if !slices.Contains(known, p.MSPID) {
			return fmt.Errorf("the policy names %s: %s are accepted", p.MSPID, strings.Join(known, ", "))
		}
	}
	return nil
}

var fromWire = map[commonpb.MSPRole_MSPRoleType]identity.Role{
	commonpb.MSPRole_MEMBER:  identity.Member,
	commonpb.MSPRole_ADMIN:   identity.Admin,
	commonpb.MSPRole_CLIENT:  identity.Client,
	commonpb.MSPRole_PEER:    identity.Peer,
	commonpb.MSPRole_ORDERER: identity.Orderer,
}

// Evaluate reports whether the identities satisfy the policy. An identity that is
// given twice counts once, and none is used for two principals. Like Fabric, rules
// take the first identity that fits, in order, and do not try again.
func (p *Policy) Evaluate(ids []*identity.Identity) bool {
	used := make([]bool, len(ids))
	for i := range ids {
		for j := range i {
			used[i] = used[i] || ids[i].Same(ids[j])
		}
	}
	return p.satisfied(&p.root, ids, used)
}

func (p *Policy) satisfied(at *node, ids []*identity.Identity, used []bool) bool {
	if at.leaf >= 0 {
		for i, id := range ids {
			if !used[i] && p.principals[at.leaf].matches(id) {
				used[i] = true
				return true
			}
		}
		return false
	}
	met := 0
	for i := range at.children {
		child := &at.children[i]
		if child.leaf >= 0 { // a leaf that fails has used nothing: no copy needed
			if p.satisfied(child, ids, used) {
				met++
			}
			continue
		}
		attempt := append([]bool(nil), used...)
		if p.satisfied(child, ids, attempt) {
			met++
			copy(used, attempt)
		}
	}
	return met >= at.n
}
