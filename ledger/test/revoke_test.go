package test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
)

// TestARevokedClientIsRefusedFromOnePlaceOn: its transactions count up to the configuration that revokes its
// certificate and not after it, equally on every peer; everybody else goes on.
func TestARevokedClientIsRefusedFromOnePlaceOn(t *testing.T) {
	g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv, "--chaincode-tls")
	certificate := g.path(g.file.Clients[0].Cert)
	msp := g.file.Clients[0].MSPID
	clients := g.file.Clients
	g.describe("revoked.json", clients[:1])
	g.describe("others.json", clients[1:])
	before := g.load(10, "--chaincode", "kv", "--clients", "4", "--accounts", "50", "--value-size", "100")
	g.progress("peer0-org1", 50)
	assert.Contains(t, g.config("revoke", "--msp-id", msp, certificate), "configuration 1 is in force")
	out, err := g.command(t.Context(), "load", "--network", g.path("revoked.json"), "--chaincode", "kv", "--duration", "1s", "--clients", "1").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "access denied: channel [mychannel] creator org ["+msp+"]")
	told := before.wait()
	require.NotEmpty(t, told)
	after := g.load(1, "--network", g.path("others.json"), "--chaincode", "kv", "--clients", "2", "--value-size", "100").wait()
	assert.NotEmpty(t, after, "the other organisation's clients commit")
	report := g.agree(append(told, after...))
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
}

// describe writes a description of the network with other clients.
func (g *grid) describe(name string, clients []network.Client) {
	g.t.Helper()
	file := g.file
	file.Clients = clients
	raw, err := json.Marshal(file)
	require.NoError(g.t, err)
	require.NoError(g.t, os.WriteFile(g.path(name), raw, 0o644))
}
