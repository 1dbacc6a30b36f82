package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/configtool"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/internal/protoutil"
)

// config runs `qioi-ledger config`.
func (g *grid) config(args ...string) string {
	g.t.Helper()
	return string(g.must("config", append([]string{"--network", g.path("network.json")}, args...)...))
}

// stranger makes an organisation that the network does not know, and a description of the
// network whose only client is that organisation's. It returns the organisation's folder msp.
func (g *grid) stranger(description string) (msp string) {
	g.t.Helper()
	other := filepath.Join(g.t.TempDir(), "other")
	g.must("init", "--dir", other, "--orgs", "3", "--orderers", "1", "--consenter", "solo", "--base-port", strconv.Itoa(porttest.Take(g.t)))
	theirs, err := network.Load(filepath.Join(other, network.FileName))
	require.NoError(g.t, err)
	for _, c := range theirs.Clients {
		if c.MSPID == "Org3MSP" {
			c.Cert, c.Key = filepath.Join(other, c.Cert), filepath.Join(other, c.Key)
			g.describe(description, []network.Client{c})
		}
	}
	return filepath.Join(other, "crypto", "peerOrganizations", "org3.example.com", "msp")
}

// TestConfigurationsChangeUnderLoad changes a chaincode's definition, the channel's
// organisations, a policy and the cutting rules while clients go on, with nodes that are killed meanwhile.
func TestConfigurationsChangeUnderLoad(t *testing.T) {
	for _, mode := range []string{"stream", "block"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv, "--mode", mode, "--batch-timeout", "200ms")
			msp := g.stranger("stranger.json")
			w := g.load("--chaincode", "kv", "--clients", "6", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.progress("peer0-org1", 50)

			g.kill("orderer2", syscall.SIGKILL)
			assert.Contains(t, g.config("upgrade-chaincode", "kv", "--version", "2.0", "--policy", "AND('Org1MSP.peer','Org2MSP.peer')"), "configuration 1 is in force")
			g.start("orderer2")
			g.progress("peer0-org1", 50) // both organisations endorse now

			g.kill("peer0-org2", syscall.SIGKILL)
			g.start("peer0-org2")
			update := g.path("org3.update")
			g.config("add-org", "--msp-id", "Org3MSP", "--msp", msp, "--signers", "Org1MSP", "--out", update)
			failed := g.command(t.Context(), "config", "send", "--network", g.path("network.json"), "--signers", "Org1MSP", update)
			out, err := failed.CombinedOutput()
			require.Error(t, err, "one of two organisations is not the majority")
			assert.Contains(t, string(out), "do not satisfy /Channel/Application/Admins")
			g.config("sign", "--signers", "Org2MSP", update)
			assert.Contains(t, g.config("send", "--signers", "Org2MSP", update), "configuration 2 is in force")
			g.awaitReady("peer0-org2")
			g.progress("peer0-org1", 20)

			patch := g.path("patch.yaml")
			require.NoError(t, os.WriteFile(patch, []byte("policies:\n  /Channel/Application/Endorsement: ANY Endorsement\nbatch_timeout: 100ms\nmax_message_count: 20\n"), 0o644))
			assert.Contains(t, g.config("apply", patch), "configuration 3 is in force")
			g.progress("peer0-org1", 20)

			var shown configtool.Description
			require.NoError(t, json.Unmarshal([]byte(g.config("show")), &shown))
			assert.EqualValues(t, 3, shown.Sequence)
			assert.Equal(t, configtool.Chaincode{Version: "2.0", Sequence: 2}, shown.Chaincodes["kv"])
			assert.Contains(t, shown.Organisations, "Org3MSP")

			told := w.stop()
			require.NotEmpty(t, told)
			theirs := g.commits("--network", g.path("stranger.json"), "--chaincode", "kv", "--value-size", "100")
			report := g.agree(append(told, theirs...))
			t.Logf("told %d, ledger: %v", len(told), report.Codes)
			g.sameConfigurations()
		})
	}
}

// denied is what the clients of a description of the network are told, who get nothing committed.
func (g *grid) denied(description string, args ...string) string {
	g.t.Helper()
	out, err := g.command(g.t.Context(), "load", append([]string{
		"--network", g.path(description), "--chaincode", "kv", "--warmup", "0s", "--duration", "2s", "--clients", "1",
	}, args...)...).CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

// TestAStrangerIsRefused is what the new organisation's clients see before they are let in.
func TestAStrangerIsRefused(t *testing.T) {
	g := newGrid(t, "--peers-per-org", "1", "--orderers", "1", "--consenter", "solo", "--chaincode", kv)
	g.stranger("stranger.json")
	record := g.path("told")
	assert.Contains(t, g.denied("stranger.json", "--record", record), "access denied: channel [mychannel] creator org unknown, creator is malformed")
	raw, err := os.ReadFile(record)
	require.NoError(t, err)
	assert.Empty(t, string(raw))
}

// sameConfigurations holds the configurations that stopped orderers and peers are left with against each other.
func (g *grid) sameConfigurations() {
	g.t.Helper()
	var first []string
	for _, n := range g.file.Nodes {
		if n.Role == "chaincode" {
			continue
		}
		dir := g.ledger(n.Name)
		if n.Role == "orderer" {
			dir = filepath.Join(dir, "blocks")
		}
		got := configBlocks(g.t, dir)
		if first == nil {
			first = got
		}
		assert.Len(g.t, got, 4, "%s: genesis and three more", n.Name)
		assert.Equal(g.t, first, got, n.Name)
	}
}

// configBlocks lists the configurations of a ledger by block and header hash.
func configBlocks(t testing.TB, dir string) (out []string) {
	t.Helper()
	store, err := blockfile.Open(dir, blockfile.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	for n := range store.Height() {
		block, err := store.Block(n)
		require.NoError(t, err)
		if bundle, err := channelconfig.FromBlock(block); err == nil {
			out = append(out, fmt.Sprintf("block %d %x: configuration %d", n, protoutil.BlockHeaderHash(block.Header), bundle.Sequence))
		}
	}
	return out
}
