package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
)

func revoke(t testing.TB, a *ca.Authority, certs ...[]byte) []byte {
	t.Helper()
	list, err := a.Revoke(certs...)
	require.NoError(t, err)
	return list
}

func pemOf(s *SigningIdentity, t testing.TB, a *ca.Authority) []byte {
	t.Helper()
	id, err := manager(t, a).Deserialize(s.Serialized())
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Cert.Raw})
}

// sameSerial is a's list of a certificate that another authority has issued.
func sameSerial(t testing.TB, a *ca.Authority, cert []byte) []byte {
	t.Helper()
	named, err := parseCertificate(cert)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(a.CertPEM(), a.KeyPEM())
	require.NoError(t, err)
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), NextUpdate: time.Now().Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: named.SerialNumber, RevocationTime: time.Now()}},
	}, pair.Leaf, pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	return list
}

// intermediate makes an authority below another one.
func intermediate(t *testing.T, above *ca.Authority) *ca.Authority {
	t.Helper()
	pair, err := tls.X509KeyPair(above.CertPEM(), above.KeyPEM())
	require.NoError(t, err)
	below := authority(t, "org1")
	own, err := tls.X509KeyPair(below.CertPEM(), below.KeyPEM())
	require.NoError(t, err)
	template := *own.Leaf
	template.RawSubject, template.Subject.CommonName = nil, "ca2"
	der, err := x509.CreateCertificate(rand.Reader, &template, pair.Leaf, own.Leaf.PublicKey, pair.PrivateKey)
	require.NoError(t, err)
	middle, err := ca.Load(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), below.KeyPEM())
	require.NoError(t, err)
	return middle
}

func TestARevokedCertificateIsRefused(t *testing.T) {
	a, b := authority(t, "org1"), authority(t, "org1")
	lost := issue(t, a, "Org1MSP", ca.Request{CommonName: "lost", Unit: "client"})
	good := issue(t, a, "Org1MSP", ca.Request{CommonName: "good", Unit: "client"})
	list := revoke(t, a, pemOf(lost, t, a))
	der, _ := pem.Decode(list)
	_, err := b.Revoke(pemOf(good, t, a))
	require.ErrorContains(t, err, "has not issued")
	other := sameSerial(t, b, pemOf(good, t, a))
	for name, lists := range map[string][][]byte{
		"PEM": {list}, "DER": {der.Bytes}, "among others": {revoke(t, a), list, other},
		"in one text": {slices.Concat(revoke(t, a), list)},
	} {
		m, err := NewManager(OrgConfig{
			MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM(), b.CertPEM()}, RevocationLists: lists, OUs: DefaultOUs(),
		})
		require.NoError(t, err, name)
		for range 2 { // the second time from the cache, if it were there
			_, err = m.Deserialize(lost.Serialized())
			assert.ErrorIs(t, err, ErrRevoked, name)
			_, err = m.Deserialize(good.Serialized())
			assert.NoError(t, err, "%s: another authority's serial numbers are not ours", name)
		}
	}
}

// TestARevokedAuthorityTakesItsCertificatesAlong: the chain's middle counts as well.
func TestARevokedAuthorityTakesItsCertificatesAlong(t *testing.T) {
	root := authority(t, "org1")
	middle := intermediate(t, root)
	client := issue(t, middle, "Org1MSP", ca.Request{CommonName: "client", Unit: "client"})
	for _, revoked := range []bool{false, true} {
		cfg := OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{root.CertPEM()}, IntermediateCerts: [][]byte{middle.CertPEM()}, OUs: DefaultOUs()}
		if revoked {
			cfg.RevocationLists = [][]byte{revoke(t, root, middle.CertPEM())}
		}
		m, err := NewManager(cfg)
		require.NoError(t, err)
		_, err = m.Deserialize(client.Serialized())
		if revoked {
			assert.ErrorIs(t, err, ErrRevoked)
		} else {
			assert.NoError(t, err)
		}
	}
}

func TestAListOfNobodyIsRefused(t *testing.T) {
	a, other := authority(t, "org1"), authority(t, "org2")
	cfg := OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM()}, OUs: DefaultOUs()}
	for want, list := range map[string][]byte{
		"none of the organisation's authorities": revoke(t, other),
		"revocation list 0":                      []byte("not a list"),
	} {
		cfg.RevocationLists = [][]byte{list}
		_, err := NewManager(cfg)
		assert.ErrorContains(t, err, want)
	}
}

// FuzzRevocationList reads any bytes.
func FuzzRevocationList(f *testing.F) {
	a := authority(f, "org1")
	root, err := parseCertificate(a.CertPEM())
	require.NoError(f, err)
	f.Add(revoke(f, a))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = newRevocations([][]byte{raw}, []*x509.Certificate{root}) })
}
