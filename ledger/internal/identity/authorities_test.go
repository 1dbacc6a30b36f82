package identity

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
)

// TestARenewedAuthoritysCertificatesOutliveTheOldOne: it has the same key, and stands beside it in the configuration.
func TestARenewedAuthoritysCertificatesOutliveTheOldOne(t *testing.T) {
	a := authority(t, "org1")
	now := time.Now()
	renewed := renew(t, a, now.Add(-time.Minute), now.AddDate(20, 0, 0))
	client := issue(t, a, "Org1MSP", ca.Request{CommonName: "new", Unit: "client", NotBefore: now, NotAfter: now.AddDate(15, 0, 0)})
	early := issue(t, a, "Org1MSP", ca.Request{CommonName: "old", Unit: "client", NotAfter: now.AddDate(15, 0, 0)})
	for _, roots := range [][][]byte{{a.CertPEM(), renewed}, {renewed, a.CertPEM()}} {
		m, err := NewManager(OrgConfig{MSPID: "Org1MSP", RootCerts: roots, OUs: DefaultOUs()})
		require.NoError(t, err)
		for _, c := range []struct {
			of   *SigningIdentity
			at   time.Time
			want error
		}{
			{client, now.AddDate(5, 0, 0), nil},
			{client, now.AddDate(12, 0, 0), nil}, // the old one has ended after ten years
			{client, now.AddDate(16, 0, 0), ErrExpired},
			{client, now.Add(-time.Hour), ErrExpired},
			{early, now.AddDate(5, 0, 0), nil},
			{early, now.AddDate(12, 0, 0), ErrExpired}, // when it was issued, the new one was not valid
		} {
			_, err := m.DeserializeAt(c.of.Serialized(), c.at)
			assert.ErrorIs(t, err, c.want, c.at)
		}
	}
}

// renew gives an authority's key another certificate.
func renew(t *testing.T, a *ca.Authority, from, to time.Time) []byte {
	t.Helper()
	pair, err := tls.X509KeyPair(a.CertPEM(), a.KeyPEM())
	require.NoError(t, err)
	template := *pair.Leaf
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(2), from, to
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, template.PublicKey, pair.PrivateKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestAUnitMayCountBelowOneAuthorityAlone, as in Fabric where a node's unit names a certificate.
func TestAUnitMayCountBelowOneAuthorityAlone(t *testing.T) {
	a, b := authority(t, "org1"), authority(t, "org1b")
	cfg := OrgConfig{
		MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM(), b.CertPEM()}, OUs: DefaultOUs(), OUIssuers: map[string][]byte{"admin": a.CertPEM()},
	}
	m, err := NewManager(cfg)
	require.NoError(t, err)
	for _, c := range []struct {
		from  *ca.Authority
		units []string
		want  error
	}{
		{a, []string{"admin"}, nil},
		{b, []string{"admin"}, ErrNoRole},
		{a, []string{"client"}, nil},
		{b, []string{"client"}, nil},
		// A unit of the wrong authority is not passed over: the other one would count alone.
		{b, []string{"admin", "client"}, ErrNoRole},
		{b, []string{"client", "admin"}, ErrNoRole},
		{a, []string{"client", "admin"}, ErrNoRole},
		{b, []string{"client", "department1"}, nil},
	} {
		_, err := m.Deserialize(serialize(t, "Org1MSP", withUnits(t, c.from, c.units)))
		assert.ErrorIs(t, err, c.want, c.units)
	}
	cfg.OUIssuers["peer"] = authority(t, "org2").CertPEM()
	_, err = NewManager(cfg)
	require.ErrorContains(t, err, `authority of unit "peer": "ca.org2" is none of the organisation's`)
	cfg.OUIssuers["peer"] = []byte("x")
	_, err = NewManager(cfg)
	require.ErrorContains(t, err, "no PEM certificate found")
}

// withUnits issues a certificate with several units.
func withUnits(t *testing.T, a *ca.Authority, units []string) []byte {
	t.Helper()
	pair, err := tls.X509KeyPair(a.CertPEM(), a.KeyPEM())
	require.NoError(t, err)
	text, _, err := a.Issue(ca.Request{CommonName: "u"})
	require.NoError(t, err)
	template, err := parseCertificate(text)
	require.NoError(t, err)
	template.RawSubject, template.Subject.OrganizationalUnit = nil, units
	der, err := x509.CreateCertificate(rand.Reader, template, pair.Leaf, template.PublicKey, pair.PrivateKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestAnAuthorityWithOthersBelowItHasNoMembers, as in Fabric: an organisation that has put an authority below its root
// trusts that one for its members.
func TestAnAuthorityWithOthersBelowItHasNoMembers(t *testing.T) {
	root, other := authority(t, "org1"), authority(t, "org1b")
	middle := intermediate(t, root)
	lowest := intermediate(t, middle)
	m, err := NewManager(OrgConfig{
		MSPID: "Org1MSP", RootCerts: [][]byte{root.CertPEM(), other.CertPEM()},
		IntermediateCerts: [][]byte{lowest.CertPEM(), middle.CertPEM()}, OUs: DefaultOUs(),
	})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		from *ca.Authority
		want error
	}{"root": {root, ErrUntrusted}, "middle": {middle, ErrUntrusted}, "lowest": {lowest, nil}, "another root": {other, nil}} {
		_, err := m.Deserialize(issue(t, c.from, "Org1MSP", ca.Request{CommonName: "u", Unit: "client"}).Serialized())
		assert.ErrorIs(t, err, c.want, name)
	}
}
