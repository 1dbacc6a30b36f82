package configtool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One file may hold the certificate for several purposes: each purpose gets it.
func TestConsenterCertificates(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	network := file("network.json", "{}")
	server, other := file("server.pem", "server"), file("other.pem", "other")
	for name, c := range map[string]struct {
		flags                 consenterFlags
		tls, client, identity string
	}{
		"server alone":          {consenterFlags{tlsCert: server}, "server", "", ""},
		"a client's of its own": {consenterFlags{tlsCert: server, clientTLSCert: other}, "server", "other", ""},
		"the same for both":     {consenterFlags{tlsCert: server, clientTLSCert: server}, "server", "server", ""},
		"the same for all": {
			consenterFlags{tlsCert: server, clientTLSCert: server, identity: server}, "server", "server", "server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := (&options{network: network}).consenter("orderer9.example.com:7050", c.flags)
			require.NoError(t, err)
			assert.Equal(t, c.tls, patch.TLSCert)
			assert.Equal(t, c.client, patch.ClientTLSCert)
			assert.Equal(t, c.identity, patch.Identity)
		})
	}
}
