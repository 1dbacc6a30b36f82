package identity

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/msppb"
)

// SigningIdentity is the certificate and the key of a node or client that this process acts for.
type SigningIdentity struct {
	mspID      string
	cert       *x509.Certificate
	key        *ecdsa.PrivateKey
	serialized []byte
}

// LoadSigner reads an identity from PEM files. It errs when they do not hold a
// P-256 certificate and the key that belongs to it.
func LoadSigner(mspID, certFile, keyFile string) (*SigningIdentity, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", mspID, err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", mspID, err)
	}
	s, err := NewSigner(mspID, certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", certFile, keyFile, err)
	}
	return s, nil
}

// NewSigner is LoadSigner for PEM texts in memory.
func NewSigner(mspID string, certPEM, keyPEM []byte) (*SigningIdentity, error) {
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("the key does not belong to the certificate of %q", cert.Subject.CommonName)
	}
	serialized, err := proto.Marshal(&msppb.SerializedIdentity{Mspid: mspID, IdBytes: certPEM})
	if err != nil {
		return nil, err
	}
	return &SigningIdentity{mspID: mspID, cert: cert, key: key, serialized: serialized}, nil
}

// MSPID is the identifier of the signer's organisation.
func (s *SigningIdentity) MSPID() string { return s.mspID }

// Serialized is the form that goes on the wire. The caller must not change it.
func (s *SigningIdentity) Serialized() []byte { return s.serialized }

// Sign signs sha256(msg); the signature has the low-S form.
func (s *SigningIdentity) Sign(msg []byte) ([]byte, error) {
	digest := sha256.Sum256(msg)
	return signDigest(s.key, digest[:])
}

// SignOwn is Sign for what this process will be asked to verify itself: it knows the signature again, and Verify
// need not compute anything.
func (s *SigningIdentity) SignOwn(msg []byte) ([]byte, error) {
	digest := sha256.Sum256(msg)
	signature, err := signDigest(s.key, digest[:])
	if err == nil {
		own.add(digest, &s.key.PublicKey, signature)
	}
	return signature, err
}

func parseKey(keyPEM []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, fmt.Errorf("no PEM private key found")
	}
	var parsed any
	var err error
	if block.Type == "EC PRIVATE KEY" {
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	} else {
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("private key: %w (PKCS#8 or EC PRIVATE KEY is accepted)", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve.Params().BitSize != 256 {
		return nil, fmt.Errorf("private key: only ECDSA P-256 is accepted")
	}
	return key, nil
}
