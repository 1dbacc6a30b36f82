package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"math/big"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Errors of a signature check.
var (
	ErrSignatureEncoding = errors.New("signature is not the DER form of two ECDSA integers")
	ErrHighS             = errors.New("signature has a high S: only the low-S form is accepted")
	ErrSignature         = errors.New("signature does not match the message")
)

var (
	curveOrder = elliptic.P256().Params().N
	halfOrder  = new(big.Int).Rsh(curveOrder, 1)
)

// signDigest gives the low-S form: of the two signatures (r, s) and (r, N-s) that
// fit a message Fabric accepts only the smaller, so that nobody can alter one.
func signDigest(key *ecdsa.PrivateKey, digest []byte) ([]byte, error) {
	// Without a source of randomness the nonce is RFC 6979's, made with SHA-256 in place of the SHA-512 that the
	// library hashes random bytes with: a fifth of a signature's time.
	der, err := key.Sign(nil, digest, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	r, s, err := parseSignature(der)
	if err != nil {
		return nil, err
	}
	if s.Cmp(halfOrder) <= 0 {
		return der, nil
	}
	return marshalSignature(r, s.Sub(curveOrder, s))
}

// verify checks sig over a message's SHA-256.
func (k *publicKey) verify(digest [sha256.Size]byte, sig []byte) error {
	if own.has(digest, k.ecdsa, sig) {
		return nil
	}
	r, s, err := parseSignature(sig)
	if err != nil {
		return err
	}
	if s.Cmp(halfOrder) > 0 {
		return ErrHighS
	}
	if !k.holds(digest[:], r, s) {
		return ErrSignature
	}
	return nil
}

func parseSignature(der []byte) (r, s *big.Int, err error) {
	r, s = new(big.Int), new(big.Int)
	input := cryptobyte.String(der)
	var inner cryptobyte.String
	if !input.ReadASN1(&inner, asn1.SEQUENCE) || !input.Empty() ||
		!inner.ReadASN1Integer(r) || !inner.ReadASN1Integer(s) || !inner.Empty() ||
		r.Sign() <= 0 || s.Sign() <= 0 {
		return nil, nil, ErrSignatureEncoding
	}
	return r, s, nil
}

func marshalSignature(r, s *big.Int) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1BigInt(r)
		b.AddASN1BigInt(s)
	})
	return b.Bytes()
}
