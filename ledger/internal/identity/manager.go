package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/msppb"
)

// Errors of Deserialize, for errors.Is. The error itself says more.
var (
	ErrMalformed  = errors.New("malformed identity")
	ErrUnknownMSP = errors.New("unknown organisation")
	ErrUntrusted  = errors.New("certificate is not of its organisation")
	ErrNoRole     = errors.New("certificate has no role")
	ErrExpired    = errors.New("certificate is not valid at this time")
)

// Bounds against hostile input: a real identity has less than 2 KiB, and a
// channel has some hundreds of them.
const (
	maxSerialized = 16 << 10
	maxCached     = 4096
	longestMSPID  = 64 // characters that are told of an unknown one
)

// OrgConfig is what a channel knows of an organisation. Certificates are PEM.
type OrgConfig struct {
	MSPID             string
	RootCerts         [][]byte
	IntermediateCerts [][]byte
	TLSRootCerts      [][]byte
	// RevocationLists name revoked certificates; PEM or DER.
	RevocationLists [][]byte
	// Admins are certificates whose holders are admins, whatever units they carry.
	Admins [][]byte
	// OUs maps the organizational unit that a certificate must carry to its role;
	// DefaultOUs is what cryptogen and Fabric CA use.
	OUs map[string]Role
	// OUIssuers maps a unit to the authority, PEM, whose certificates alone may carry it. One that is not here may stand in
	// all certificates.
	OUIssuers map[string][]byte
}

// DefaultOUs are the unit names that Fabric's tools write into certificates.
func DefaultOUs() map[string]Role {
	return map[string]Role{"client": Client, "peer": Peer, "admin": Admin, "orderer": Orderer}
}

type org struct {
	roots, intermediates *x509.CertPool
	inner                map[string]bool // by key, which a renewed certificate shares; authorities with another one below them
	revoked              revocations
	admins               map[[sha256.Size]byte]bool // by digest
	ous                  map[string]Role
	issuers              map[string]*x509.Certificate // by unit; of those that one authority's certificates alone may carry
}

// Manager verifies the identities of a channel. It belongs to one version of the
// channel's configuration and never changes; it is safe for concurrent use.
type Manager struct {
	orgs map[string]*org

	mu    sync.RWMutex
	cache map[string]*Identity // by serialized form; verified ones only
}

// NewManager errs when two organisations of one MSP id differ, or certificates cannot be read. An organisation that runs
// orderers and peers is given twice.
func NewManager(orgs ...OrgConfig) (*Manager, error) {
	m := &Manager{orgs: make(map[string]*org, len(orgs)), cache: make(map[string]*Identity)}
	given := make(map[string]OrgConfig, len(orgs))
	for _, cfg := range orgs {
		if cfg.MSPID == "" {
			return nil, fmt.Errorf("an organisation has no MSP id")
		}
		if before, ok := given[cfg.MSPID]; ok {
			if !reflect.DeepEqual(before, cfg) {
				return nil, fmt.Errorf("organisation %s: two different versions of its MSP", cfg.MSPID)
			}
			continue
		}
		given[cfg.MSPID] = cfg
		o, err := newOrg(&cfg)
		if err != nil {
			return nil, fmt.Errorf("organisation %s: %w", cfg.MSPID, err)
		}
		m.orgs[cfg.MSPID] = o
	}
	return m, nil
}

func newOrg(cfg *OrgConfig) (*org, error) {
	o := &org{roots: x509.NewCertPool(), intermediates: x509.NewCertPool(), inner: map[string]bool{}, ous: cfg.OUs}
	if len(cfg.RootCerts) == 0 {
		return nil, errors.New("it has no root certificate")
	}
	roots, err := addAll(o.roots, cfg.RootCerts)
	if err != nil {
		return nil, fmt.Errorf("root certificate: %w", err)
	}
	below, err := addAll(o.intermediates, cfg.IntermediateCerts)
	if err != nil {
		return nil, fmt.Errorf("intermediate certificate: %w", err)
	}
	for _, authority := range below {
		chains, _ := o.chains(authority) // one that leads to no root harms no other
		for _, chain := range chains {
			for _, above := range chain[1:] {
				o.inner[string(above.RawSubjectPublicKeyInfo)] = true
			}
		}
	}
	authorities := append(roots, below...)
	if o.revoked, err = newRevocations(cfg.RevocationLists, authorities); err != nil {
		return nil, err
	}
	if o.admins, err = digests(cfg.Admins); err != nil {
		return nil, fmt.Errorf("admin's certificate: %w", err)
	}
	o.issuers, err = ouIssuers(cfg.OUIssuers, authorities)
	return o, err
}

// digests takes any kind of key: an admin with one that is not accepted is nobody, which harms no other.
func digests(pems [][]byte) (map[[sha256.Size]byte]bool, error) {
	out := make(map[[sha256.Size]byte]bool, len(pems))
	for _, text := range pems {
		cert, _, err := firstCertificate(text)
		if err != nil {
			return nil, err
		}
		out[CertificateDigest(cert)] = true
	}
	return out, nil
}

func ouIssuers(pems map[string][]byte, authorities []*x509.Certificate) (map[string]*x509.Certificate, error) {
	issuers := map[string]*x509.Certificate{}
	for unit, text := range pems {
		cert, err := onlyCertificate(text)
		if err != nil {
			return nil, fmt.Errorf("authority of unit %q: %w", unit, err)
		}
		if !slices.ContainsFunc(authorities, cert.Equal) {
			return nil, fmt.Errorf("authority of unit %q: %q is none of the organisation's", unit, cert.Subject.CommonName)
		}
		issuers[unit] = cert
	}
	return issuers, nil
}

func addAll(pool *x509.CertPool, pems [][]byte) (certs []*x509.Certificate, err error) {
	for _, text := range pems {
		cert, err := onlyCertificate(text)
		if err != nil {
			return nil, err
		}
		if !cert.IsCA {
			return nil, fmt.Errorf("%q is not a certificate authority", cert.Subject.CommonName)
		}
		pool.AddCert(cert)
		certs = append(certs, cert)
	}
	return certs, nil
}

// Deserialize verifies an identity as of now. This is for messages that arrive;
// for what the ledger already holds use DeserializeAt.
func (m *Manager) Deserialize(serialized []byte) (*Identity, error) {
	return m.DeserializeAt(serialized, time.Now())
}

// DeserializeAt verifies an identity as of a time that the ledger itself fixes (a
// transaction's timestamp), so that every peer, also one that replays years
// later, decides alike.
func (m *Manager) DeserializeAt(serialized []byte, at time.Time) (*Identity, error) {
	id, err := m.DeserializeUndated(serialized)
	if err != nil {
		return nil, err
	}
	if !id.ValidAt(at) {
		return nil, fmt.Errorf("%w: %q of %s, valid %v", ErrExpired, id.Cert.Subject.CommonName, id.MSPID, id.valid)
	}
	return id, nil
}

// DeserializeUndated verifies an identity without its period of validity, for what has no time: block signatures.
func (m *Manager) DeserializeUndated(serialized []byte) (*Identity, error) {
	m.mu.RLock()
	id := m.cache[string(serialized)]
	m.mu.RUnlock()
	if id == nil {
		var err error
		if id, err = m.verify(serialized); err != nil {
			return nil, err
		}
		m.remember(serialized, id)
	}
	return id, nil
}

// SignedBy reports whether a signature is that of a serialized identity's own certificate, whoever that is: no
// organisation need know it, or admit it still.
func SignedBy(serialized, msg, sig []byte) bool {
	var wire msppb.SerializedIdentity
	if len(serialized) > maxSerialized || proto.Unmarshal(serialized, &wire) != nil {
		return false
	}
	cert, err := parseCertificate(wire.IdBytes)
	if err != nil {
		return false
	}
	key := &publicKey{ecdsa: cert.PublicKey.(*ecdsa.PublicKey)} // parseCertificate accepts nothing else
	return key.verify(sha256.Sum256(msg), sig) == nil
}

func (m *Manager) remember(serialized []byte, id *Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.cache) >= maxCached {
		for key := range m.cache { // any one: Go's map order is random enough
			delete(m.cache, key)
			break
		}
	}
	m.cache[string(serialized)] = id
}

func (m *Manager) verify(serialized []byte) (*Identity, error) {
	if len(serialized) > maxSerialized {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrMalformed, len(serialized), maxSerialized)
	}
	var wire msppb.SerializedIdentity
	if err := proto.Unmarshal(serialized, &wire); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrMalformed, "not a SerializedIdentity")
	}
	o := m.orgs[wire.Mspid]
	if o == nil {
		return nil, fmt.Errorf("%w %.*q", ErrUnknownMSP, longestMSPID, wire.Mspid)
	}
	cert, err := parseCertificate(wire.IdBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if cert.IsCA {
		return nil, fmt.Errorf("%w: %q is an authority, not a member, of %s", ErrUntrusted, cert.Subject.CommonName, wire.Mspid)
	}
	id := &Identity{MSPID: wire.Mspid, Cert: cert, digest: CertificateDigest(cert)}
	id.key = &publicKey{ecdsa: cert.PublicKey.(*ecdsa.PublicKey)} // parseCertificate accepts nothing else
	chains, err := id.chain(o)
	if err != nil {
		return nil, err
	}
	return id, id.assignRoles(o, chains)
}

// chains walks up to a root as of the moment that the certificate was issued.
func (o *org) chains(cert *x509.Certificate) ([][]*x509.Certificate, error) {
	return cert.Verify(x509.VerifyOptions{
		Roots: o.roots, Intermediates: o.intermediates, CurrentTime: cert.NotBefore.Add(time.Second),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
}

// chain finds whom the certificate is of (the trust), and notes from when until when each whole chain is valid (the time).
// In each there is an authority above the certificate, which is none itself.
func (i *Identity) chain(o *org) (chains [][]*x509.Certificate, err error) {
	if chains, err = o.chains(i.Cert); err != nil {
		return nil, fmt.Errorf("%w: %q of %s: %w", ErrUntrusted, i.Cert.Subject.CommonName, i.MSPID, err)
	}
	// As in Fabric an organisation that has put an authority below another one trusts the lower one for its members.
	chains = slices.DeleteFunc(chains, func(chain []*x509.Certificate) bool {
		return o.inner[string(chain[1].RawSubjectPublicKeyInfo)]
	})
	if len(chains) == 0 {
		return nil, fmt.Errorf("%w: %q of %s was issued by an authority that has others below it", ErrUntrusted, i.Cert.Subject.CommonName, i.MSPID)
	}
	for _, chain := range chains {
		if err := o.revoked.check(chain); err != nil {
			return nil, fmt.Errorf("%w of %s", err, i.MSPID)
		}
		i.valid = append(i.valid, periodOf(chain))
	}
	return chains, nil
}

func (i *Identity) assignRoles(o *org, chains [][]*x509.Certificate) error {
	i.roles = 1 << Member
	if o.admins[i.digest] {
		i.roles |= 1 << Admin
	}
	found := 0
	for _, unit := range i.Cert.Subject.OrganizationalUnit {
		role, ok := o.ous[unit]
		if !ok {
			continue
		}
		// As in Fabric: were the unit passed over, the certificate's other one would give it a role.
		if issuer := o.issuers[unit]; issuer != nil && !slices.ContainsFunc(chains, issuedBy(issuer)) {
			return fmt.Errorf("%w: %q of %s carries the unit %q, which is for certificates of %q",
				ErrNoRole, i.Cert.Subject.CommonName, i.MSPID, unit, issuer.Subject.CommonName)
		}
		i.roles |= 1 << role
		found++
	}
	if len(o.ous) > 0 && found != 1 {
		return fmt.Errorf("%w: %q of %s carries %d of the units client, peer, admin, orderer; exactly one is accepted",
			ErrNoRole, i.Cert.Subject.CommonName, i.MSPID, found)
	}
	return nil
}

func issuedBy(issuer *x509.Certificate) func(chain []*x509.Certificate) bool {
	return func(chain []*x509.Certificate) bool { return chain[1].Equal(issuer) }
}

// parseCertificate accepts a member's certificate: one with a P-256 key.
func parseCertificate(text []byte) (*x509.Certificate, error) {
	cert, err := onlyCertificate(text)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("certificate %q: only ECDSA P-256 keys are accepted", cert.Subject.CommonName)
	}
	return cert, nil
}

// onlyCertificate accepts one PEM certificate, of any key as an authority may have, and nothing after it.
func onlyCertificate(text []byte) (*x509.Certificate, error) {
	cert, rest, err := firstCertificate(text)
	if err == nil && strings.TrimSpace(string(rest)) != "" {
		err = errors.New("more than one PEM certificate found")
	}
	return cert, err
}

func firstCertificate(text []byte) (cert *x509.Certificate, rest []byte, err error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, nil, fmt.Errorf("no PEM certificate found")
	}
	cert, err = x509.ParseCertificate(block.Bytes)
	return cert, rest, err
}
