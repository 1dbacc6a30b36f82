package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func authority(t *testing.T, organization string) *Authority {
	t.Helper()
	a, err := New("ca", organization)
	require.NoError(t, err)
	return a
}

func parsed(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(text)
	require.NotNil(t, block)
	require.Empty(t, rest)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}

func pool(a *Authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// TestACertificateIsForItsRole, holds by its authority, and by no other one of the same name.
func TestACertificateIsForItsRole(t *testing.T) {
	a, other := authority(t, "org1.example.com"), authority(t, "org1.example.com")
	text, key, err := a.Issue(Request{CommonName: "peer0", Unit: "peer"})
	require.NoError(t, err)
	cert := parsed(t, text)
	assert.Equal(t, "peer0", cert.Subject.CommonName)
	assert.Equal(t, []string{"peer"}, cert.Subject.OrganizationalUnit)
	assert.Equal(t, "ca.org1.example.com", cert.Issuer.CommonName)
	assert.False(t, cert.IsCA)
	_, err = tls.X509KeyPair(text, key)
	require.NoError(t, err, "the key is the certificate's")

	anyUse := []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
	_, err = cert.Verify(x509.VerifyOptions{Roots: pool(a), KeyUsages: anyUse})
	require.NoError(t, err)
	_, err = cert.Verify(x509.VerifyOptions{Roots: pool(other), KeyUsages: anyUse})
	require.Error(t, err)
	_, err = Load(text, key)
	require.ErrorContains(t, err, "an authority's ECDSA key and certificate are accepted")
}

// TestATLSCertificateIsForItsHosts, at both ends of a connection.
func TestATLSCertificateIsForItsHosts(t *testing.T) {
	a := authority(t, "org1.example.com")
	text, _, err := a.Issue(Request{CommonName: "peer0", Hosts: []string{"peer0.example.com", "127.0.0.1", "::1"}})
	require.NoError(t, err)
	cert := parsed(t, text)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		for _, host := range []string{"peer0.example.com", "127.0.0.1", "::1"} {
			_, err = cert.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: host, KeyUsages: []x509.ExtKeyUsage{use}})
			require.NoError(t, err, host)
		}
		for _, host := range []string{"peer1.example.com", "127.0.0.2"} {
			_, err = cert.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: host, KeyUsages: []x509.ExtKeyUsage{use}})
			require.Error(t, err, host)
		}
	}
}

// TestHowLongACertificateHolds: as long as its authority, or as it is told.
func TestHowLongACertificateHolds(t *testing.T) {
	a := authority(t, "org1.example.com")
	text, _, err := a.Issue(Request{CommonName: "a"})
	require.NoError(t, err)
	assert.Equal(t, a.cert.NotBefore, parsed(t, text).NotBefore)
	assert.Equal(t, a.cert.NotAfter, parsed(t, text).NotAfter)
	assert.Equal(t, clockSkew+validity, a.cert.NotAfter.Sub(a.cert.NotBefore))
	from, to := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2021, 1, 2, 3, 4, 5, 0, time.UTC)
	text, _, err = a.Issue(Request{CommonName: "a", NotBefore: from, NotAfter: to})
	require.NoError(t, err)
	assert.Equal(t, from, parsed(t, text).NotBefore)
	assert.Equal(t, to, parsed(t, text).NotAfter)
}

// TestAnAuthorityIsReadBack, and issues what holds by the one that was written.
func TestAnAuthorityIsReadBack(t *testing.T) {
	a, other := authority(t, "org1.example.com"), authority(t, "org2.example.com")
	again, err := Load(a.CertPEM(), a.KeyPEM())
	require.NoError(t, err)
	text, _, err := again.Issue(Request{CommonName: "a"})
	require.NoError(t, err)
	require.NoError(t, parsed(t, text).CheckSignatureFrom(a.cert))
	_, err = Load(a.CertPEM(), other.KeyPEM())
	require.Error(t, err)
	_, err = Load(a.CertPEM(), []byte("no key"))
	require.Error(t, err)
	_, err = Load(rsaAuthority(t))
	require.ErrorContains(t, err, "an authority's ECDSA key and certificate are accepted")
}

func rsaAuthority(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// TestAListHasWhatIsRevoked, signed, and later lists have higher numbers. What the authority has not issued is refused.
func TestAListHasWhatIsRevoked(t *testing.T) {
	a, other := authority(t, "org1.example.com"), authority(t, "org2.example.com")
	first, _, err := a.Issue(Request{CommonName: "a"})
	require.NoError(t, err)
	second, _, err := a.Issue(Request{CommonName: "b"})
	require.NoError(t, err)
	assert.NotEqual(t, parsed(t, first).SerialNumber, parsed(t, second).SerialNumber)
	text, err := a.Revoke(first, second)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.Equal(t, "X509 CRL", block.Type)
	list, err := x509.ParseRevocationList(block.Bytes)
	require.NoError(t, err)
	require.NoError(t, list.CheckSignatureFrom(a.cert))
	require.Error(t, list.CheckSignatureFrom(other.cert))
	require.Len(t, list.RevokedCertificateEntries, 2)
	for i, cert := range [][]byte{first, second} {
		assert.Equal(t, parsed(t, cert).SerialNumber, list.RevokedCertificateEntries[i].SerialNumber)
	}

	foreign, _, err := other.Issue(Request{CommonName: "c"})
	require.NoError(t, err)
	_, err = a.Revoke(first, foreign)
	require.ErrorContains(t, err, `"ca.org1.example.com" has not issued the certificate of "c"`)
	_, err = a.Revoke([]byte("no certificate"))
	require.ErrorContains(t, err, "a PEM certificate is accepted")
	_, err = a.Revoke(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("nonsense")}))
	require.Error(t, err)
}

// TestAnAuthoritysKeyIsP256.
func TestAnAuthoritysKeyIsP256(t *testing.T) {
	a := authority(t, "org1.example.com")
	public, is := a.cert.PublicKey.(*ecdsa.PublicKey)
	require.True(t, is)
	assert.Equal(t, elliptic.P256(), public.Curve)
	assert.True(t, a.cert.IsCA)
	assert.NotEmpty(t, a.cert.SubjectKeyId)
}
