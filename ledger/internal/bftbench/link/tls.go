package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"time"
)

// serverName is what the certificate of a run is for.
const serverName = "replica"

// Certificate is one for all replicas of a run, with its key.
type Certificate struct{ Certificate, Key []byte }

// NewCertificate signs itself. It lasts for a day.
func NewCertificate() (c Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	if c.Certificate, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key); err != nil {
		return c, err
	}
	c.Key, err = x509.MarshalECPrivateKey(key)
	return c, err
}

// Configs are what the two ends of a connection need.
func (c Certificate) Configs() (server, client *tls.Config, err error) {
	parsed, err := x509.ParseCertificate(c.Certificate)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(c.Key)
	if err != nil {
		return nil, nil, errors.Join(errors.New("the run's key"), err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.Certificate}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
	return server, &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS13}, nil
}
