package test

import (
	"encoding/json"
	"os"
	"strings"
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
	before := g.load("--chaincode", "kv", "--clients", "4", "--accounts", "50", "--value-size", "100")
	g.progress("peer0-org1", 50)
	assert.Contains(t, g.config("revoke", "--msp-id", msp, certificate), "configuration 1 is in force")
	g.eventually("the peer knows it as well", func() bool {
		return strings.Contains(g.denied("revoked.json"), "access denied: channel [mychannel] creator org ["+msp+"]")
	})
	told := before.stop()
	require.NotEmpty(t, told)
	after := g.commits("--network", g.path("others.json"), "--chaincode", "kv", "--value-size", "100")
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
