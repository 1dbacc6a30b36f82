package test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/protoutil"
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
	// With so many clients some transactions are under way when the configuration comes into force.
	before := g.load("--network", g.path("revoked.json"), "--chaincode", "kv", "--clients", "32", "--accounts", "50", "--value-size", "100")
	others := g.load("--network", g.path("others.json"), "--chaincode", "kv", "--clients", "2", "--value-size", "100")
	g.progress("peer0-org1", 50)
	assert.Contains(t, g.config("revoke", "--msp-id", msp, certificate), "configuration 1 is in force")
	g.eventually("the peer knows it as well", func() bool {
		return strings.Contains(g.denied("revoked.json"), "access denied: channel [mychannel] creator org ["+msp+"]")
	})
	told := before.stop()
	require.NotEmpty(t, told)
	told = append(told, others.stop()...)
	after := g.commits("--network", g.path("others.json"), "--chaincode", "kv", "--value-size", "100")
	report := g.agree(append(told, after...))
	counts, late := map[string]int{}, 0
	sent := g.sentAround(g.named("peer")[0], certificate)
	for _, line := range report.Verdicts {
		f := strings.Fields(line)
		after, its := sent[f[3]]
		switch {
		case its && after:
			late++
			assert.NotEqual(t, "VALID", f[2], line)
		case its:
			counts[f[2]]++
		}
	}
	assert.NotZero(t, counts["VALID"], "its transactions count up to the configuration: %v", counts)
	t.Logf("%d of its transactions were ordered after the configuration", late)
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
}

// sentAround has the ids of the transactions of a certificate's client in a stopped peer's chain, and whether each follows a
// configuration other than block 0's.
func (g *grid) sentAround(peer, certificate string) map[string]bool {
	g.t.Helper()
	creator, err := os.ReadFile(certificate)
	require.NoError(g.t, err)
	store, err := blockfile.Open(g.ledger(peer), blockfile.Options{ReadOnly: true})
	require.NoError(g.t, err)
	defer func() { require.NoError(g.t, store.Close()) }()
	var envelopes [][]byte
	for number := uint64(1); number < store.Height(); number++ {
		block, err := store.Block(number)
		require.NoError(g.t, err)
		envelopes = append(envelopes, block.Data.Data...)
	}
	_, tail := store.OpenTail()
	for _, tx := range tail {
		envelopes = append(envelopes, tx.Data)
	}
	sent, late := map[string]bool{}, false
	for _, raw := range envelopes {
		message, err := protoutil.ParseEnvelope(raw)
		require.NoError(g.t, err)
		if channelconfig.IsConfig(message.Channel) {
			late = true
		} else if bytes.Contains(message.Signature.Creator, bytes.TrimSpace(creator)) {
			sent[message.Channel.TxId] = late
		}
	}
	require.True(g.t, late, "no configuration was changed")
	return sent
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
