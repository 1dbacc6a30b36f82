package configtool

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/setup"
)

// An organisation hands its part of the folder to others without its administrator's key.
func TestThoseSignWhoseKeysAreThere(t *testing.T) {
	made := setup.Defaults()
	made.Dir = filepath.Join(t.TempDir(), "net")
	_, err := setup.Init(made)
	require.NoError(t, err)
	o := &options{network: filepath.Join(made.Dir, network.FileName)}
	signers := func(named ...string) (names []string, err error) {
		o.signers = named
		found, _, err := o.open()
		for _, s := range found {
			names = append(names, s.MSPID())
		}
		return names, err
	}
	all, err := signers()
	require.NoError(t, err)
	require.Equal(t, []string{"Org1MSP", "Org2MSP", "OrdererMSP"}, all)

	for i, home := range []string{"peerOrganizations/org1.example.com", "peerOrganizations/org2.example.com", "ordererOrganizations/example.com"} {
		left, err := signers()
		require.NoError(t, err)
		assert.Equal(t, all[i:], left)
		keys, err := filepath.Glob(filepath.Join(made.Dir, "crypto", home, "users", "Admin@*", "msp", "keystore", "*"))
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.NoError(t, os.WriteFile(keys[0], []byte("broken"), 0o600))
		_, err = signers()
		require.Error(t, err, "a key that is there and cannot be read is no missing one")
		require.NoError(t, os.Remove(keys[0]))
		_, err = signers(all[i])
		require.ErrorContains(t, err, "administrator of "+all[i], "it was named")
	}
	_, err = signers()
	require.ErrorContains(t, err, "its folder has no administrator's key")
}

// TestAnOrganisationsFolderIsReadWhole: where there are intermediate authorities they issue all its certificates, and what
// its lists revoke must not be admitted.
func TestAnOrganisationsFolderIsReadWhole(t *testing.T) {
	root, err := ca.New("ca", "org3.example.com")
	require.NoError(t, err)
	middle := below(t, root)
	issue := func() (cert []byte, signer *identity.SigningIdentity) {
		cert, key, err := middle.Issue(ca.Request{CommonName: "peer0", Unit: "peer"})
		require.NoError(t, err)
		signer, err = identity.NewSigner("Org3MSP", cert, key)
		require.NoError(t, err)
		return cert, signer
	}
	_, member := issue()
	lost, revoked := issue()
	list, err := middle.Revoke(lost)
	require.NoError(t, err)
	der, _ := pem.Decode(list)
	another := below(t, root)
	dir := folderOf(t, map[string][]byte{
		"cacerts/root.pem": root.CertPEM(), "cacerts/.gitkeep": nil, "tlscacerts/root.pem": root.CertPEM(),
		"intermediatecerts/both.pem": slices.Concat(middle.CertPEM(), another.CertPEM()), "intermediatecerts/none.pem": []byte("\n"),
		"intermediatecerts/.gitkeep": []byte("x"), "intermediatecerts/..data/middle.pem": middle.CertPEM(), "intermediatecerts/old/middle.pem": nil,
		"tlsintermediatecerts/middle.pem": middle.CertPEM(), "crls/lost.crl": der.Bytes,
	})
	patch, err := readOrganisation("Org3MSP", dir, nil)
	require.NoError(t, err)
	config, err := patch.Apply(peertest.New(t, peertest.Options{}).Bundle.Config)
	require.NoError(t, err)
	bundle, err := channelconfig.FromConfig(peertest.Channel, config)
	require.NoError(t, err)

	_, err = bundle.MSP.Deserialize(member.Serialized())
	require.NoError(t, err)
	_, err = bundle.MSP.Deserialize(revoked.Serialized())
	require.ErrorIs(t, err, identity.ErrRevoked)
	issuedByAnother, key, err := another.Issue(ca.Request{CommonName: "peer1", Unit: "peer"})
	require.NoError(t, err)
	signer, err := identity.NewSigner("Org3MSP", issuedByAnother, key)
	require.NoError(t, err)
	_, err = bundle.MSP.Deserialize(signer.Serialized())
	require.NoError(t, err)
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(root.CertPEM())
	known.AppendCertsFromPEM(middle.CertPEM())
	assert.True(t, bundle.Orgs["Org3MSP"].TLSRoots.Equal(known))
}

// TestAFileThatCannotBeReadIsNamed, of the many that an organisation's folder may have.
func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	root, err := ca.New("ca", "org3.example.com")
	require.NoError(t, err)
	for _, bad := range []string{"intermediatecerts/bad.pem", "tlsintermediatecerts/bad.pem", "crls/bad.pem"} {
		for _, text := range [][]byte{[]byte("x"), root.KeyPEM(), slices.Concat(root.CertPEM(), root.KeyPEM())} {
			dir := folderOf(t, map[string][]byte{"cacerts/root.pem": root.CertPEM(), "tlscacerts/root.pem": root.CertPEM(), bad: text})
			_, err := readOrganisation("Org3MSP", dir, nil)
			assert.ErrorContains(t, err, filepath.Join(dir, bad)+": ")
		}
	}
}

// folderOf makes a folder of such files.
func folderOf(t *testing.T, files map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for file, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	return dir
}

// below makes an authority below another one.
func below(t *testing.T, above *ca.Authority) *ca.Authority {
	t.Helper()
	made, err := ca.New("ca2", "org3.example.com")
	require.NoError(t, err)
	upper, err := tls.X509KeyPair(above.CertPEM(), above.KeyPEM())
	require.NoError(t, err)
	lower, err := tls.X509KeyPair(made.CertPEM(), made.KeyPEM())
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, lower.Leaf, upper.Leaf, lower.Leaf.PublicKey, upper.PrivateKey)
	require.NoError(t, err)
	middle, err := ca.Load(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), made.KeyPEM())
	require.NoError(t, err)
	return middle
}
