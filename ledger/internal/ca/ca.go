// Package ca issues the X.509 certificates of a test or demo network: one
// authority for identities and one for TLS per organisation, ECDSA P-256, the
// organizational unit of a certificate says its role (Fabric's NodeOUs).
package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// A demo network should outlive its users' patience, and not be taken for production.
const validity = 10 * 365 * 24 * time.Hour

// clockSkew is how far back a certificate's start lies, for hosts whose clocks differ.
const clockSkew = 5 * time.Minute

// Authority is a self-signed certificate authority.
type Authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
	keyPEM  []byte
}

// New makes an authority for an organisation, for example New("ca", "org1.example.com").
func New(name, organization string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ski, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{
		Subject:               pkix.Name{Country: []string{"EU"}, Organization: []string{organization}, CommonName: name + "." + organization},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		SubjectKeyId:          ski,
	}
	certPEM, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	keyPEM, err := marshalKey(key)
	if err != nil {
		return nil, err
	}
	return Load(certPEM, keyPEM)
}

// CertPEM is the authority's certificate.
func (a *Authority) CertPEM() []byte { return a.certPEM }

// KeyPEM is the authority's private key.
func (a *Authority) KeyPEM() []byte { return a.keyPEM }

// Request says what a certificate is for.
type Request struct {
	CommonName string
	Unit       string   // role: client, peer, orderer or admin; empty in TLS certificates
	Hosts      []string // DNS names and IP addresses; makes it a TLS certificate for both directions
	NotBefore  time.Time
	NotAfter   time.Time // zero times: from now on, for as long as the authority
}

// Issue makes a key and a certificate for it, both PEM.
func (a *Authority) Issue(r Request) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{Country: []string{"EU"}, CommonName: r.CommonName},
		NotBefore:             r.NotBefore,
		NotAfter:              r.NotAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		AuthorityKeyId:        a.cert.SubjectKeyId,
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = a.cert.NotBefore
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = a.cert.NotAfter
	}
	if r.Unit != "" {
		template.Subject.OrganizationalUnit = []string{r.Unit}
	}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if certPEM, err = sign(template, a.cert, &key.PublicKey, a.key); err != nil {
		return nil, nil, err
	}
	keyPEM, err = marshalKey(key)
	return certPEM, keyPEM, err
}

// Load reads an authority back.
func Load(certPEM, keyPEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("an authority's ECDSA key and certificate are accepted")
	}
	return &Authority{cert: pair.Leaf, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

// Revoke makes a list (PEM) of certificates, PEM, that this authority has issued and that count no more.
func (a *Authority) Revoke(certs ...[]byte) ([]byte, error) {
	now := time.Now().UTC().Truncate(time.Second)
	list := &x509.RevocationList{Number: big.NewInt(now.UnixNano()), ThisUpdate: now, NextUpdate: now.Add(validity)}
	for _, text := range certs {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, errors.New("a PEM certificate is accepted")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if err := cert.CheckSignatureFrom(a.cert); err != nil {
			return nil, fmt.Errorf("%q has not issued the certificate of %q: %w", a.cert.Subject.CommonName, cert.Subject.CommonName, err)
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), nil
}

func sign(template, parent *x509.Certificate, pub *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func marshalKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func keyID(pub *ecdsa.PublicKey) ([]byte, error) {
	raw, err := pub.Bytes()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	return sum[:], nil
}
