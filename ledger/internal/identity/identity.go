package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"time"
)

// Role is what an identity is within its organisation (Fabric's NodeOUs).
type Role uint8

// The roles. Every verified identity is a Member.
const (
	Member Role = iota
	Admin
	Client
	Peer
	Orderer
)

var roleNames = [...]string{Member: "member", Admin: "admin", Client: "client", Peer: "peer", Orderer: "orderer"}

func (r Role) String() string { return roleNames[r] }

// Identity is a certificate that chains to an authority of its organisation. It is immutable.
type Identity struct {
	MSPID string
	Cert  *x509.Certificate

	roles  uint8 // bit set of Role
	key    *publicKey
	digest [sha256.Size]byte // of what the authority signed: anybody can write the signature itself in several ways
	valid  []period          // of each chain; there are several where an authority's certificate was renewed
}

// period is when all certificates of a chain are valid: from the latest start to the earliest end.
type period struct{ from, to time.Time }

func (p period) String() string {
	return p.from.UTC().Format(time.RFC3339) + " to " + p.to.UTC().Format(time.RFC3339)
}

func periodOf(chain []*x509.Certificate) period {
	p := period{chain[0].NotBefore, chain[0].NotAfter}
	for _, cert := range chain[1:] {
		if cert.NotBefore.After(p.from) {
			p.from = cert.NotBefore
		}
		if cert.NotAfter.Before(p.to) {
			p.to = cert.NotAfter
		}
	}
	return p
}

// HasRole reports whether the certificate carries the role.
func (i *Identity) HasRole(r Role) bool { return i.roles&(1<<r) != 0 }

// Same reports whether both are the same certificate of the same organisation,
// however the messages encoded it.
func (i *Identity) Same(other *Identity) bool {
	return i.digest == other.digest && i.MSPID == other.MSPID
}

// IsOf reports whether it is this certificate of this organisation.
func (i *Identity) IsOf(mspID string, digest [sha256.Size]byte) bool {
	return i.digest == digest && i.MSPID == mspID
}

// CertificateDigest is what tells certificates apart, whoever wrote their signature.
func CertificateDigest(cert *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(cert.RawTBSCertificate)
}

// Verify checks that sig is the low-S signature of this identity over sha256(msg).
func (i *Identity) Verify(msg, sig []byte) error { return i.key.verify(sha256.Sum256(msg), sig) }

// VerifyDigest is Verify for a message of which the caller has the SHA-256.
func (i *Identity) VerifyDigest(digest [sha256.Size]byte, sig []byte) error {
	return i.key.verify(digest, sig)
}

// ValidAt reports whether every certificate of a chain is valid at t.
func (i *Identity) ValidAt(t time.Time) bool {
	return slices.ContainsFunc(i.valid, func(p period) bool { return !t.Before(p.from) && !t.After(p.to) })
}
