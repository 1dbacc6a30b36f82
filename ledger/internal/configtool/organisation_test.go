package configtool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
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
