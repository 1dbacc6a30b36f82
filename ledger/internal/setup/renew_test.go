package setup

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// peerOf is the first peer of a new network whose peers and chaincodes know each other by certificates.
func peerOf(t *testing.T) (dir string, node network.Node, cfg *nodeconfig.Config) {
	t.Helper()
	o := Defaults()
	o.Dir, o.ChaincodeTLS = filepath.Join(t.TempDir(), "net"), true
	_, err := Init(o)
	require.NoError(t, err)
	file, err := network.Load(filepath.Join(o.Dir, network.FileName))
	require.NoError(t, err)
	for _, node := range file.Nodes {
		if node.Role == nodeconfig.RolePeer {
			cfg, err := nodeconfig.Load(filepath.Join(o.Dir, node.Config), nodeconfig.RolePeer)
			require.NoError(t, err)
			return o.Dir, node, cfg
		}
	}
	require.Fail(t, "no peer")
	return "", network.Node{}, nil
}

// TestAPeerShowsItsNewCertificateToItsChaincodes: its old key may be known to somebody.
func TestAPeerShowsItsNewCertificateToItsChaincodes(t *testing.T) {
	dir, node, cfg := peerOf(t)
	require.NotEmpty(t, cfg.Chaincodes)
	before, err := cfg.Certificate()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(cfg.TLS.Key, 0o640))
	kept, err := os.ReadFile(cfg.Chaincodes[0].Connection)
	require.NoError(t, err)
	require.NoError(t, RenewTLS(dir, node.Name))
	require.NoError(t, os.WriteFile(cfg.Chaincodes[0].Connection, kept, 0o600)) // as where the first time ended half-way
	require.NoError(t, RenewTLS(dir, node.Name))
	after, err := cfg.Certificate()
	require.NoError(t, err)
	assert.NotEqual(t, before.Certificate[0], after.Certificate[0])
	for _, chaincode := range cfg.Chaincodes {
		_, secured, err := chaincode.Dial()
		require.NoError(t, err)
		require.Len(t, secured.Certificates, 1)
		assert.Equal(t, after.Certificate[0], secured.Certificates[0].Certificate[0])
		assert.Equal(t, after.PrivateKey, secured.Certificates[0].PrivateKey)
		found, err := os.Stat(chaincode.Connection)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), found.Mode())
	}
	found, err := os.Stat(cfg.TLS.Key)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), found.Mode(), "who could read it can read the new one")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(cfg.TLS.Cert))), "*.renewed"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestAPairOutsideOfTheFolderIsRenewed where it is, and leaves nothing elsewhere.
func TestAPairOutsideOfTheFolderIsRenewed(t *testing.T) {
	dir, node, cfg := peerOf(t)
	home := filepath.Dir(filepath.Dir(cfg.TLS.Cert))
	moved := filepath.Join(t.TempDir(), filepath.Base(home))
	require.NoError(t, os.Rename(home, moved))
	file := filepath.Join(dir, node.Config)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	inside, err := filepath.Rel(dir, home)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(raw, []byte(inside), []byte(moved)), 0o600))
	cfg, err = nodeconfig.Load(file, nodeconfig.RolePeer)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(moved, "tls", "server.crt"), cfg.TLS.Cert)
	before, err := cfg.Certificate()
	require.NoError(t, err)
	had := slices.Sorted(maps.Keys(files(t, filepath.Dir(filepath.Dir(dir)))))
	require.NoError(t, RenewTLS(dir, node.Name))
	after, err := cfg.Certificate()
	require.NoError(t, err)
	assert.NotEqual(t, before.Certificate[0], after.Certificate[0])
	assert.Equal(t, before.Leaf.Subject.CommonName, after.Leaf.Subject.CommonName)
	assert.Equal(t, had, slices.Sorted(maps.Keys(files(t, filepath.Dir(filepath.Dir(dir))))))
}

// TestAPairThatCannotBeMadeLeavesTheOldOne, as on a full disk.
func TestAPairThatCannotBeMadeLeavesTheOldOne(t *testing.T) {
	dir, node, cfg := peerOf(t)
	before, err := cfg.Certificate()
	require.NoError(t, err)
	home := filepath.Dir(filepath.Dir(cfg.TLS.Cert))
	require.NoError(t, os.MkdirAll(filepath.Join(home+".renewed", "tls", "server.key"), 0o700)) // in the key's place
	require.Error(t, RenewTLS(dir, node.Name))
	after, err := cfg.Certificate()
	require.NoError(t, err)
	assert.Equal(t, before.Certificate, after.Certificate)
}

// TestOfAnotherPairNothingIsRenewed: its operator has made it, and an unreadable file is told before anything is changed.
func TestOfAnotherPairNothingIsRenewed(t *testing.T) {
	dir, node, cfg := peerOf(t)
	before, err := cfg.Certificate()
	require.NoError(t, err)
	file := cfg.Chaincodes[0].Connection
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.ErrorContains(t, RenewTLS(dir, node.Name), "connection")
	after, err := cfg.Certificate()
	require.NoError(t, err)
	assert.Equal(t, before.Certificate, after.Certificate)
	text := `{"address": "cc:1", "client_cert": "another's"}`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.NoError(t, RenewTLS(dir, node.Name))
	found, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, text, string(found))
}
