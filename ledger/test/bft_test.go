package test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bft are the options of a network whose four orderers go on while one of them lies or is away.
var bft = []string{"--consenter", "bft", "--orderers", "4", "--peers-per-org", "1", "--chaincode", kv}

// TestReplicasUnderLoad kills and freezes each orderer in turn, the leader among them, while clients write to a few keys.
func TestReplicasUnderLoad(t *testing.T) {
	for _, mode := range []string{"block", "stream"} {
		t.Run(mode, func(t *testing.T) {
			g := newGrid(t, append(bft, "--mode", mode, "--batch-timeout", "200ms", "--checkpoint-interval", "20")...)
			w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.progress("peer0-org1", 50)
			for _, orderer := range g.named("orderer") {
				_ = g.kill(orderer, syscall.SIGKILL)
				for _, peer := range g.named("peer") {
					g.progress(peer, 20)
				}
				g.start(orderer)
				g.awaitReady(orderer)
				g.together()
			}
			for _, orderer := range g.named("orderer") {
				frozen := g.nodes[orderer].cmd.Process
				require.NoError(t, frozen.Signal(syscall.SIGSTOP))
				for _, peer := range g.named("peer") {
					g.progress(peer, 20)
				}
				require.NoError(t, frozen.Signal(syscall.SIGCONT))
				g.together()
			}
			told := w.stop()
			require.NotEmpty(t, told)
			report := g.agree(told)
			t.Logf("told %d, ledger: %v", len(told), report.Codes)
		})
	}
}

// together waits until all orderers have applied what any of them has by now: one that has just come back may not count
// before it has fetched what it lacks.
func (g *grid) together() {
	g.t.Helper()
	most := 0.0
	for _, orderer := range g.named("orderer") {
		most = max(most, g.counter(orderer, "consensus_BFT_applied"))
	}
	for _, orderer := range g.named("orderer") {
		g.eventually(orderer+" has what the others have", func() bool { return g.counter(orderer, "consensus_BFT_applied") >= most })
	}
}

// TestReplicasAfterAPowerCut: all orderers and peers are killed at once.
func TestReplicasAfterAPowerCut(t *testing.T) {
	g := newGrid(t, append(bft, "--checkpoint-interval", "20")...)
	w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "100")
	g.progress("peer0-org1", 100)
	for _, n := range g.file.Nodes {
		_ = g.nodes[n.Name].cmd.Process.Signal(syscall.SIGKILL)
	}
	for _, n := range g.file.Nodes {
		_ = g.kill(n.Name, syscall.SIGKILL)
	}
	for _, n := range g.file.Nodes {
		g.start(n.Name)
	}
	for _, n := range g.file.Nodes {
		g.awaitReady(n.Name)
	}
	for _, peer := range g.named("peer") {
		g.progress(peer, 100)
	}
	told := w.stop()
	report := g.agree(append(told, g.commits("--chaincode", "kv")...))
	assert.False(t, strings.Contains(strings.Join(report.Verdicts, "\n"), "BAD_PAYLOAD"))
}
