package identity

import (
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/pb/msppb"
)

func authority(t testing.TB, org string) *ca.Authority {
	t.Helper()
	a, err := ca.New("ca", org)
	require.NoError(t, err)
	return a
}

func issue(t testing.TB, a *ca.Authority, msp string, r ca.Request) *SigningIdentity {
	t.Helper()
	cert, key, err := a.Issue(r)
	require.NoError(t, err)
	s, err := NewSigner(msp, cert, key)
	require.NoError(t, err)
	return s
}

func manager(t testing.TB, a *ca.Authority) *Manager {
	t.Helper()
	m, err := NewManager(OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM()}, OUs: DefaultOUs()})
	require.NoError(t, err)
	return m
}

func serialize(t testing.TB, msp string, cert []byte) []byte {
	t.Helper()
	out, err := proto.Marshal(&msppb.SerializedIdentity{Mspid: msp, IdBytes: cert})
	require.NoError(t, err)
	return out
}

func TestSignatureIsVerifiedUnderTheRightIdentity(t *testing.T) {
	a := authority(t, "org1")
	m := manager(t, a)
	signer := issue(t, a, "Org1MSP", ca.Request{CommonName: "peer0", Unit: "peer"})
	id, err := m.Deserialize(signer.Serialized())
	require.NoError(t, err)
	assert.Equal(t, "Org1MSP", id.MSPID)
	for role, want := range map[Role]bool{Member: true, Peer: true, Client: false, Admin: false, Orderer: false} {
		assert.Equal(t, want, id.HasRole(role), role)
	}
	again, err := m.Deserialize(signer.Serialized())
	require.NoError(t, err)
	assert.Same(t, id, again, "verified once, then cached")

	for range 32 { // half of all signatures start with a high S
		sig, err := signer.Sign([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, id.Verify([]byte("hello"), sig))
		require.ErrorIs(t, id.Verify([]byte("hellO"), sig), ErrSignature)

		r, s, err := parseSignature(sig)
		require.NoError(t, err)
		high, err := marshalSignature(r, new(big.Int).Sub(curveOrder, s))
		require.NoError(t, err)
		require.ErrorIs(t, id.Verify([]byte("hello"), high), ErrHighS)
	}
}

func TestSignatureEncodings(t *testing.T) {
	a := authority(t, "org1")
	signer := issue(t, a, "Org1MSP", ca.Request{CommonName: "c", Unit: "client"})
	id, err := manager(t, a).Deserialize(signer.Serialized())
	require.NoError(t, err)
	good, err := signer.Sign([]byte("m"))
	require.NoError(t, err)
	zero, err := marshalSignature(big.NewInt(0), big.NewInt(1))
	require.NoError(t, err)
	negative, err := marshalSignature(big.NewInt(5), big.NewInt(-1))
	require.NoError(t, err)
	for name, sig := range map[string][]byte{
		"empty": nil, "text": []byte("signature"), "cut": good[:len(good)-1], "longer": append(append([]byte{}, good...), 0),
		"r zero": zero, "s negative": negative,
	} {
		assert.ErrorIs(t, id.Verify([]byte("m"), sig), ErrSignatureEncoding, name)
	}
}

func TestRefusedIdentities(t *testing.T) {
	a, foreign := authority(t, "org1"), authority(t, "org1")
	m := manager(t, a)
	now := time.Now()
	cert, _, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
	require.NoError(t, err)
	expired := issue(t, a, "Org1MSP", ca.Request{CommonName: "old", Unit: "client", NotBefore: now.Add(-2 * time.Minute), NotAfter: now.Add(-time.Minute)})
	future := issue(t, a, "Org1MSP", ca.Request{CommonName: "new", Unit: "client", NotBefore: now.Add(time.Hour)})
	beyond := issue(t, a, "Org1MSP", ca.Request{CommonName: "early", Unit: "client", NotBefore: now.Add(-24 * time.Hour)})

	for _, c := range []struct {
		name       string
		serialized []byte
		want       error
	}{
		{"expired", expired.Serialized(), ErrExpired},
		{"not yet valid", future.Serialized(), ErrExpired},
		{"older than its authority", beyond.Serialized(), ErrUntrusted},
		{"foreign authority of the same name", issue(t, foreign, "Org1MSP", ca.Request{CommonName: "u", Unit: "client"}).Serialized(), ErrUntrusted},
		{"the authority itself", serialize(t, "Org1MSP", a.CertPEM()), ErrUntrusted},
		{"unknown organisation", issue(t, a, "Org2MSP", ca.Request{CommonName: "u", Unit: "client"}).Serialized(), ErrUnknownMSP},
		{"no role", issue(t, a, "Org1MSP", ca.Request{CommonName: "u"}).Serialized(), ErrNoRole},
		{"unknown role", issue(t, a, "Org1MSP", ca.Request{CommonName: "u", Unit: "janitor"}).Serialized(), ErrNoRole},
		{"not protobuf", []byte("\xff\xff"), ErrMalformed},
		{"not PEM", serialize(t, "Org1MSP", []byte("cert")), ErrMalformed},
		{"two certificates", serialize(t, "Org1MSP", append(append([]byte{}, cert...), cert...)), ErrMalformed},
		{"no DER inside", serialize(t, "Org1MSP", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")), ErrMalformed},
		{"too long", make([]byte, maxSerialized+1), ErrMalformed},
	} {
		for range 2 { // a refusal must not be cached as a success
			_, err := m.Deserialize(c.serialized)
			assert.ErrorIs(t, err, c.want, c.name)
		}
	}
}

func TestTimeOfTheLedgerDecidesExpiry(t *testing.T) {
	a := authority(t, "org1")
	m := manager(t, a)
	now := time.Now()
	s := issue(t, a, "Org1MSP", ca.Request{CommonName: "old", Unit: "client", NotBefore: now.Add(-3 * time.Minute), NotAfter: now.Add(-time.Minute)})
	_, err := m.DeserializeAt(s.Serialized(), now.Add(-2*time.Minute))
	require.NoError(t, err)
	_, err = m.DeserializeUndated(s.Serialized())
	require.NoError(t, err)
	_, err = m.DeserializeAt(s.Serialized(), time.Time{}) // a client may write any time into its transaction
	require.ErrorIs(t, err, ErrExpired)
	_, err = m.Deserialize(s.Serialized())
	require.ErrorIs(t, err, ErrExpired)
	// Nobody outlives the authority, which ends after ten years.
	long := issue(t, a, "Org1MSP", ca.Request{CommonName: "long", Unit: "client", NotAfter: now.AddDate(20, 0, 0)})
	_, err = m.DeserializeAt(long.Serialized(), now.AddDate(5, 0, 0))
	require.NoError(t, err)
	_, err = m.DeserializeAt(long.Serialized(), now.AddDate(15, 0, 0))
	require.ErrorIs(t, err, ErrExpired)
}

// TestACertificateWrittenOtherwiseIsOnePerson: whoever has a certificate can change the form of its authority's signature,
// and must not count twice for it.
func TestACertificateWrittenOtherwiseIsOnePerson(t *testing.T) {
	a := authority(t, "org1")
	m := manager(t, a)
	certPEM, _, err := a.Issue(ca.Request{CommonName: "peer", Unit: "peer"})
	require.NoError(t, err)
	identify := func(text []byte) *Identity {
		raw, err := proto.Marshal(&msppb.SerializedIdentity{Mspid: "Org1MSP", IdBytes: text})
		require.NoError(t, err)
		id, err := m.Deserialize(raw)
		require.NoError(t, err)
		return id
	}
	block, _ := pem.Decode(certPEM)
	var parts struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	_, err = asn1.Unmarshal(block.Bytes, &parts)
	require.NoError(t, err)
	der := parts.Signature.RightAlign()
	r, s, err := parseSignature(der)
	require.NoError(t, err)
	turned, err := marshalSignature(r, new(big.Int).Sub(curveOrder, s))
	require.NoError(t, err)
	shifted := new(big.Int).Lsh(new(big.Int).SetBytes(der), 1).Bytes()
	for name, signature := range map[string]asn1.BitString{
		"the other S": {Bytes: turned, BitLength: 8 * len(turned)},
		"by a bit":    {Bytes: shifted, BitLength: 8*len(shifted) - 1},
	} {
		parts.Signature = signature
		other, err := asn1.Marshal(parts)
		require.NoError(t, err)
		require.NotEqual(t, block.Bytes, other)
		assert.True(t, identify(certPEM).Same(identify(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: other}))), name)
	}
}

func TestSameCertificateIsOnePerson(t *testing.T) {
	a := authority(t, "org1")
	m := manager(t, a)
	cert, key, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
	require.NoError(t, err)
	spaced, err := NewSigner("Org1MSP", append(append([]byte{}, cert...), '\n'), key)
	require.NoError(t, err)
	one, err := m.Deserialize(serialize(t, "Org1MSP", cert))
	require.NoError(t, err)
	two, err := m.Deserialize(spaced.Serialized())
	require.NoError(t, err)
	other, err := m.Deserialize(issue(t, a, "Org1MSP", ca.Request{CommonName: "u", Unit: "client"}).Serialized())
	require.NoError(t, err)
	assert.True(t, one.Same(two))
	assert.False(t, one.Same(other))
}

func TestCacheIsBounded(t *testing.T) {
	a := authority(t, "org1")
	m := manager(t, a)
	cert, _, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
	require.NoError(t, err)
	id, err := m.Deserialize(serialize(t, "Org1MSP", cert))
	require.NoError(t, err)
	for n := range maxCached + 10 {
		m.remember([]byte{byte(n), byte(n >> 8)}, id)
	}
	assert.Len(t, m.cache, maxCached)
}

func TestManagerRefusesBadOrganisations(t *testing.T) {
	a := authority(t, "org1")
	leaf, _, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
	require.NoError(t, err)
	good := OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM()}}
	for want, orgs := range map[string][]OrgConfig{
		"has no MSP id":               {{RootCerts: good.RootCerts}},
		"two different versions":      {good, {MSPID: "Org1MSP", RootCerts: good.RootCerts, OUs: DefaultOUs()}},
		"has no root certificate":     {{MSPID: "X"}},
		"not a certificate authority": {{MSPID: "X", RootCerts: [][]byte{leaf}}},
		"no PEM certificate found":    {{MSPID: "X", RootCerts: [][]byte{[]byte("x")}}},
		"admin's certificate: no PEM": {{MSPID: "X", RootCerts: good.RootCerts, Admins: [][]byte{[]byte("x")}}},
	} {
		_, err := NewManager(orgs...)
		assert.ErrorContains(t, err, want)
	}
}

// TestAnOrganisationMayRunOrderersAndPeers: it stands in a channel's configuration twice then.
func TestAnOrganisationMayRunOrderersAndPeers(t *testing.T) {
	a := authority(t, "org1")
	config := func() OrgConfig {
		return OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM()}, OUs: DefaultOUs()}
	}
	m, err := NewManager(config(), config())
	require.NoError(t, err)
	id, err := m.Deserialize(issue(t, a, "Org1MSP", ca.Request{CommonName: "u", Unit: "admin"}).Serialized())
	require.NoError(t, err)
	assert.True(t, id.HasRole(Admin))
}

// TestACertificateMayBeAnAdmins: without units nothing else says who is one. It is that very certificate, not its name.
func TestACertificateMayBeAnAdmins(t *testing.T) {
	a := authority(t, "org1")
	for name, ous := range map[string]map[string]Role{"without units": nil, "with units": DefaultOUs()} {
		t.Run(name, func(t *testing.T) {
			cert, key, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
			require.NoError(t, err)
			named, err := NewSigner("Org1MSP", cert, key)
			require.NoError(t, err)
			m, err := NewManager(OrgConfig{MSPID: "Org1MSP", RootCerts: [][]byte{a.CertPEM()}, OUs: ous, Admins: [][]byte{cert}})
			require.NoError(t, err)
			for signer, want := range map[*SigningIdentity]bool{named: true, issue(t, a, "Org1MSP", ca.Request{CommonName: "u", Unit: "client"}): false} {
				id, err := m.Deserialize(signer.Serialized())
				require.NoError(t, err)
				assert.Equal(t, want, id.HasRole(Admin))
				assert.Equal(t, ous != nil, id.HasRole(Client))
			}
		})
	}
}

func TestSignerRefusesAForeignKey(t *testing.T) {
	a := authority(t, "org1")
	cert, _, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
	require.NoError(t, err)
	_, key, err := a.Issue(ca.Request{CommonName: "v", Unit: "client"})
	require.NoError(t, err)
	_, err = NewSigner("Org1MSP", cert, key)
	require.ErrorContains(t, err, "does not belong")
	_, err = NewSigner("Org1MSP", cert, []byte("no key"))
	require.ErrorContains(t, err, "no PEM private key")
	_, err = LoadSigner("Org1MSP", t.TempDir()+"/none.pem", "k")
	require.ErrorContains(t, err, "none.pem")
}

func FuzzDeserialize(f *testing.F) {
	a := authority(f, "org1")
	m := manager(f, a)
	cert, _, err := a.Issue(ca.Request{CommonName: "u", Unit: "client"})
	require.NoError(f, err)
	f.Add(serialize(f, "Org1MSP", cert))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := m.Deserialize(data)
		if err == nil && id.MSPID != "Org1MSP" {
			t.Fatal("accepted a foreign identity")
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	a := authority(b, "org1")
	signer := issue(b, a, "Org1MSP", ca.Request{CommonName: "c", Unit: "client"})
	m := manager(b, a)
	sig, err := signer.Sign([]byte("m"))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		id, err := m.Deserialize(signer.Serialized())
		if err != nil || id.Verify([]byte("m"), sig) != nil {
			b.Fatal(err)
		}
	}
}
