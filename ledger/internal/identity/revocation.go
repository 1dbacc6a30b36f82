package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

// ErrRevoked says that an authority of the organisation has revoked the certificate, or one above it.
var ErrRevoked = errors.New("certificate is revoked")

// revocations are the certificates that an organisation's authorities have revoked.
type revocations map[revocation]bool

// revocation names a certificate: serial numbers are unique for one authority's key.
type revocation struct {
	issuer [sha256.Size]byte // hash of its public key
	serial string
}

func revocationOf(issuer *x509.Certificate, serial *big.Int) revocation {
	return revocation{sha256.Sum256(issuer.RawSubjectPublicKeyInfo), serial.String()}
}

// newRevocations reads certificate revocation lists, PEM (also several in one text) or DER, which some of
// these authorities have signed. As in Fabric their dates do not count: a list is in force while the
// configuration names it.
func newRevocations(lists [][]byte, authorities []*x509.Certificate) (revocations, error) {
	out := revocations{}
	for i, text := range lists {
		block, rest := pem.Decode(text)
		if block == nil {
			block = &pem.Block{Bytes: text}
		}
		for ; block != nil; block, rest = pem.Decode(rest) {
			if err := out.add(block.Bytes, authorities); err != nil {
				return nil, fmt.Errorf("revocation list %d: %w", i, err)
			}
		}
	}
	return out, nil
}

func (r revocations) add(der []byte, authorities []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return err
	}
	issuer := signerOf(list, authorities)
	if issuer == nil {
		return fmt.Errorf("%q has signed it, which is none of the organisation's authorities", list.Issuer)
	}
	for _, entry := range list.RevokedCertificateEntries {
		r[revocationOf(issuer, entry.SerialNumber)] = true
	}
	return nil
}

func signerOf(list *x509.RevocationList, authorities []*x509.Certificate) *x509.Certificate {
	for _, a := range authorities {
		if list.CheckSignatureFrom(a) == nil {
			return a
		}
	}
	return nil
}

// check looks at every certificate of a chain that ends in a root.
func (r revocations) check(chain []*x509.Certificate) error {
	for i := 0; len(r) > 0 && i+1 < len(chain); i++ {
		if r[revocationOf(chain[i+1], chain[i].SerialNumber)] {
			return fmt.Errorf("%w: %q, serial number %x", ErrRevoked, chain[i].Subject.CommonName, chain[i].SerialNumber)
		}
	}
	return nil
}
