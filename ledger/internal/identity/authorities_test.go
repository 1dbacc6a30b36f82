package identity

import (
	"crypto"
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

// TestARenewedAuthorityWithOthersBelowItHasNoMembers either, though the certificate that those were issued by is another one
// of its key.
func TestARenewedAuthorityWithOthersBelowItHasNoMembers(t *testing.T) {
	root := authority(t, "org1")
	middle := intermediate(t, root)
	renewed := renew(t, root, time.Now().Add(time.Hour), time.Now().AddDate(20, 0, 0))
	m, err := NewManager(OrgConfig{
		MSPID: "Org1MSP", RootCerts: [][]byte{root.CertPEM(), renewed}, IntermediateCerts: [][]byte{middle.CertPEM()}, OUs: DefaultOUs(),
	})
	require.NoError(t, err)
	later := ca.Request{CommonName: "u", Unit: "client", NotBefore: time.Now().Add(2 * time.Hour), NotAfter: time.Now().AddDate(15, 0, 0)}
	for name, c := range map[string]struct {
		from *ca.Authority
		want error
	}{"root": {root, ErrUntrusted}, "middle": {middle, nil}} {
		_, err := m.DeserializeUndated(issue(t, c.from, "Org1MSP", later).Serialized())
		assert.ErrorIs(t, err, c.want, name)
	}
}

// TestAnAuthorityMayHaveAnyKindOfKey, as in Fabric: companies' roots are often RSA. Members may not.
func TestAnAuthorityMayHaveAnyKindOfKey(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for name, key := range map[string]crypto.Signer{"RSA": rsaKey, "P-384": p384} {
		t.Run(name, func(t *testing.T) {
			root := &x509.Certificate{
				SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
				NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
			}
			sign := func(template *x509.Certificate, member crypto.Signer) []byte {
				der, err := x509.CreateCertificate(rand.Reader, template, root, member.Public(), key)
				require.NoError(t, err)
				return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			}
			rootPEM := sign(root, key)
			parsed, _, err := firstCertificate(rootPEM)
			require.NoError(t, err)
			member := func(serial int64, of crypto.Signer) []byte {
				return serialize(t, "Org1MSP", sign(&x509.Certificate{
					SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "u", OrganizationalUnit: []string{"client"}},
					NotBefore: root.NotBefore, NotAfter: root.NotAfter,
				}, of))
			}
			list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
				Number: big.NewInt(1), NextUpdate: root.NotAfter,
				RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: big.NewInt(3), RevocationTime: time.Now()}},
			}, parsed, key)
			require.NoError(t, err)
			m, err := NewManager(OrgConfig{
				MSPID: "Org1MSP", RootCerts: [][]byte{rootPEM}, RevocationLists: [][]byte{list}, OUs: DefaultOUs(),
				OUIssuers: map[string][]byte{"client": rootPEM},
			})
			require.NoError(t, err)
			_, err = m.Deserialize(member(2, p256))
			require.NoError(t, err)
			_, err = m.Deserialize(member(3, p256))
			require.ErrorIs(t, err, ErrRevoked)
			_, err = m.Deserialize(member(4, key))
			require.ErrorIs(t, err, ErrMalformed)
		})
	}
}
