package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/smartbftpb"
)

// TestARevokedClientIsRefusedFromOnePlaceOn: its transactions count up to the configuration that revokes its
// certificate and not after it, equally on every peer; everybody else goes on. Whether any come after it is chance here.
func TestARevokedClientIsRefusedFromOnePlaceOn(t *testing.T) {
	g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv, "--chaincode-tls")
	certificate := g.path(g.file.Clients[0].Cert)
	msp := g.file.Clients[0].MSPID
	clients := g.file.Clients
	g.describe("revoked.json", clients[:1])
	g.describe("others.json", clients[1:])
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
	earlier, later := g.verdictsAround(report, certificate)
	assert.NotZero(t, earlier["VALID"], "its transactions count up to the configuration: %v", earlier)
	assert.Zero(t, later["VALID"], "%v", later)
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
}

// TestWhatARevokedClientHasUnderWayDoesNotCount: what an orderer has let in would come into the order after the configuration,
// and is checked again: there, or before it is proposed. All waits for those who order with it, which stand still, until that
// orderer has let it in.
func TestWhatARevokedClientHasUnderWayDoesNotCount(t *testing.T) {
	for consenter, c := range map[string]struct {
		orderers string
		door     func(*grid) string // the orderer that lets all in
		leftOut  func(g *grid, door string, answers []*ordererpb.BroadcastResponse) int
	}{
		"sequencer": {"1", func(*grid) string { return "orderer1" }, func(g *grid, door string, _ []*ordererpb.BroadcastResponse) int {
			raw, err := os.ReadFile(g.path(g.node(door).Log))
			require.NoError(g.t, err)
			return bytes.Count(raw, []byte("is left out of block"))
		}},
		"bft": {"4", (*grid).lastingPrimary, func(_ *grid, _ string, answers []*ordererpb.BroadcastResponse) (n int) {
			for _, answer := range answers {
				if strings.Contains(answer.Info, "a configuration that came first does not allow the transaction") {
					n++
				}
			}
			return n
		}},
	} {
		t.Run(consenter, func(t *testing.T) {
			g := newGrid(t, "--consenter", consenter, "--orderers", c.orderers, "--peers-per-org", "1", "--chaincode", kv)
			told := g.commits("--chaincode", "kv", "--value-size", "100")
			door := c.door(g)
			certificate := g.path(g.file.Clients[0].Cert)
			envelopes := g.beforeRevocation(certificate, 20)
			n := len(envelopes) - 1
			beside := slices.DeleteFunc(append(g.named("orderer"), g.named("broker")...), func(name string) bool { return name == door })
			for _, name := range beside {
				require.NoError(t, g.nodes[name].cmd.Process.Signal(syscall.SIGSTOP))
			}
			u := g.user()
			stream, err := ordererpb.NewAtomicBroadcastClient(u.dial(door)).Broadcast(u.ctx)
			require.NoError(t, err)
			for _, env := range envelopes {
				require.NoError(t, stream.Send(env))
			}
			g.eventually("all are let in, and none is answered", func() bool {
				return g.counter(door, "qioi_orderer_queue_depth", `queue="answers"`) == float64(len(envelopes))
			})
			for _, name := range beside {
				require.NoError(t, g.nodes[name].cmd.Process.Signal(syscall.SIGCONT))
			}
			var answers []*ordererpb.BroadcastResponse
			for range envelopes {
				answer, err := stream.Recv()
				require.NoError(t, err)
				answers = append(answers, answer)
			}
			assert.Equal(t, commonpb.Status_SUCCESS, answers[0].Status, answers[0].Info)
			g.eventually("all but the configuration are left out", func() bool { return c.leftOut(g, door, answers) == n })
			earlier, later := g.verdictsAround(g.agree(told), certificate)
			assert.NotZero(t, earlier["VALID"], "%v", earlier)
			assert.Empty(t, later)
		})
	}
}

// lastingPrimary is the leader, whom none gives up for as long as a test takes: a configuration says so. A quorum has that in
// force, which begins the epoch, and one orderer alone leaves no view.
func (g *grid) lastingPrimary() string {
	g.t.Helper()
	channel := g.file.Channels[0]
	_, bundle, err := nodeconfig.Channel{Name: channel, Genesis: g.path("channels", channel+".block")}.GenesisBlock()
	require.NoError(g.t, err)
	to := proto.Clone(bundle.Config).(*commonpb.Config)
	value := to.ChannelGroup.Groups["Orderer"].Values["ConsensusType"]
	var kind ordererpb.ConsensusType
	var options smartbftpb.Options
	require.NoError(g.t, proto.Unmarshal(value.Value, &kind))
	require.NoError(g.t, proto.Unmarshal(kind.Metadata, &options))
	options.ViewChangeTimeout = (10 * patience).String()
	kind.Metadata, err = proto.Marshal(&options)
	require.NoError(g.t, err)
	value.Value, err = proto.Marshal(&kind)
	require.NoError(g.t, err)
	update, err := channelconfig.NewUpdate(channel, bundle.Config, to)
	require.NoError(g.t, err)
	raw, err := proto.Marshal(update)
	require.NoError(g.t, err)
	file := g.path("timeout.update")
	require.NoError(g.t, os.WriteFile(file, raw, 0o644))
	g.config("sign", file)
	g.config("send", file)
	g.eventually("all orderers are in the epoch that it begins", func() bool {
		return !slices.ContainsFunc(g.named("orderer"), func(name string) bool { return g.counter(name, "consensus_BFT_epoch") == 0 })
	})
	return g.primary()
}

// beforeRevocation is the configuration that revokes the first client's certificate, and n transactions of that client's to come
// after it.
func (g *grid) beforeRevocation(certificate string, n int) []*commonpb.Envelope {
	g.t.Helper()
	u := g.user()
	update := g.path("revoke.update")
	g.config("revoke", "--msp-id", g.file.Clients[0].MSPID, "--out", update, certificate)
	raw, err := os.ReadFile(update)
	require.NoError(g.t, err)
	config, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG_UPDATE, g.file.Channels[0], u.signer, nil, raw)
	require.NoError(g.t, err)
	envelopes := []*commonpb.Envelope{config}
	gateway := gatewaypb.NewGatewayClient(u.dial("peer0-org1"))
	for i := range n {
		env, _ := u.endorsed(gateway, "put", fmt.Sprint("key", i), "value")
		envelopes = append(envelopes, env)
	}
	return envelopes
}

// verdictsAround counts the verdicts on the transactions of a certificate's client in the chain of stopped peers: on those
// before a configuration other than block 0's, and on those after it.
func (g *grid) verdictsAround(report chain.Report, certificate string) (earlier, later map[string]int) {
	g.t.Helper()
	earlier, later = map[string]int{}, map[string]int{}
	sent := g.sentAround(g.named("peer")[0], certificate)
	for _, line := range report.Verdicts {
		f := strings.Fields(line)
		switch after, its := sent[f[3]]; {
		case its && after:
			later[f[2]]++
		case its:
			earlier[f[2]]++
		}
	}
	return earlier, later
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
