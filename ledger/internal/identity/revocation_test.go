package identity

import (
	"crypto/x509"
	"encoding/pem"
	"testing"

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

func TestARevokedCertificateIsRefused(t *testing.T) {
	a, b := authority(t, "org1"), authority(t, "org1")
	lost := issue(t, a, "Org1MSP", ca.Request{CommonName: "lost", Unit: "client"})
	good := issue(t, a, "Org1MSP", ca.Request{CommonName: "good", Unit: "client"})
	list := revoke(t, a, pemOf(lost, t, a))
	der, _ := pem.Decode(list)
	for name, lists := range map[string][][]byte{
		"PEM": {list}, "DER": {der.Bytes}, "among others": {revoke(t, a), list, revoke(t, b, pemOf(good, t, a))},
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
	middle, err := root.Intermediate("ca2")
	require.NoError(t, err)
	client := issue(t, middle, "Org1MSP", ca.Request{CommonName: "client", Unit: "client"})
	for _, revoked := range []bool{false, true} {
		cfg := OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{root.CertPEM()}, IntermediateCerts: [][]byte{middle.CertPEM()}, OUs: DefaultOUs()}
		if revoked {
			cfg.RevocationLists = [][]byte{revoke(t, root, middle.CertPEM())}
		}
		m, err := NewManager(cfg)
		require.NoError(t, err)
		_, err = m.Deserialize(client.Serialized())
		assert.Equal(t, revoked, err != nil)
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
