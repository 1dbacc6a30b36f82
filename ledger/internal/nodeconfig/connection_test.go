package nodeconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
)

func TestConnection(t *testing.T) {
	authority, err := ca.New("tlsca", "org1")
	require.NoError(t, err)
	cert, key, err := authority.Issue(ca.Request{CommonName: "peer0", Hosts: []string{"localhost"}})
	require.NoError(t, err)
	root, client, secret := string(authority.CertPEM()), string(cert), string(key)
	for _, c := range []struct {
		name, refused string
		connection    Connection
		tls, client   bool
	}{
		{name: "plain", connection: Connection{Address: "cc:9999", DialTimeout: "10s"}},
		{name: "server only", connection: Connection{Address: "cc:9999", TLSRequired: true, RootCert: root}, tls: true},
		{name: "both", connection: Connection{
			Address: "cc:9999", TLSRequired: true, ClientAuthRequired: true, RootCert: root, ClientCert: client, ClientKey: secret,
		}, tls: true, client: true},
		{name: "no port", connection: Connection{Address: "cc"}, refused: `address "cc": host:port is accepted`},
		{name: "no root", connection: Connection{Address: "cc:9999", TLSRequired: true}, refused: "root_cert"},
		{name: "no key", connection: Connection{
			Address: "cc:9999", TLSRequired: true, ClientAuthRequired: true, RootCert: root, ClientCert: client,
		}, refused: "client_cert and client_key"},
		{name: "client alone", connection: Connection{Address: "cc:9999", ClientAuthRequired: true}, refused: "without tls_required"},
		{name: "root alone", connection: Connection{Address: "cc:9999", RootCert: root}, refused: "without tls_required: tls_required: true"},
		{name: "client's certificate alone", connection: Connection{Address: "cc:9999", ClientCert: client}, refused: "without tls_required"},
		{name: "client's key alone", connection: Connection{Address: "cc:9999", ClientKey: secret}, refused: "without tls_required"},
		{name: "timeout", connection: Connection{Address: "cc:9999", DialTimeout: "soon"}, refused: `dial_timeout "soon"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "connection.json")
			raw, err := json.Marshal(c.connection)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, raw, 0o600))
			address, secured, err := (&Chaincode{Name: "kv", Connection: file}).Dial()
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				assert.ErrorContains(t, err, file)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "cc:9999", address)
			assert.Equal(t, c.tls, secured != nil)
			assert.Equal(t, c.client, secured != nil && len(secured.Certificates) == 1)
		})
	}
	address, secured, err := (&Chaincode{Name: "kv", Address: "cc:1"}).Dial()
	require.NoError(t, err)
	assert.Equal(t, "cc:1", address)
	assert.Nil(t, secured)
}
