package test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
)

// bft are the options of a network whose four orderers go on while one of them lies or is away.
var bft = fourBy("bft")

func fourBy(consenter string) []string {
	return []string{"--consenter", consenter, "--orderers", "4", "--peers-per-org", "1", "--chaincode", kv}
}

// TestReplicasUnderLoad kills and freezes each orderer in turn, the leader among them, while clients write to a few keys.
func TestReplicasUnderLoad(t *testing.T) {
	for _, mode := range []string{"block", "stream"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, append(bft, "--mode", mode, "--batch-timeout", "200ms", "--checkpoint-interval", "20")...)
			w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.progress("peer0-org1", 50)
			for _, orderer := range g.named("orderer") {
				g.kill(orderer, syscall.SIGKILL)
				g.recovers("peer0-org1", orderer+" is killed")
				g.progress("peer0-org2", 20)
				g.start(orderer)
				g.awaitReady(orderer)
				g.together()
			}
			for _, orderer := range g.named("orderer") {
				frozen := g.nodes[orderer].cmd.Process
				require.NoError(t, frozen.Signal(syscall.SIGSTOP))
				g.recovers("peer0-org1", orderer+" is frozen")
				g.progress("peer0-org2", 20)
				require.NoError(t, frozen.Signal(syscall.SIGCONT))
				g.together()
			}
			view := int(g.surely(g.primary(), "consensus_BFT_view"))
			for _, orderer := range g.named("orderer") {
				g.awaitLog(orderer, fmt.Sprintf("view %d: %d leads", view, view%4+1))
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
		most = max(most, g.surely(orderer, "consensus_BFT_applied"))
	}
	for _, orderer := range g.named("orderer") {
		g.eventually(orderer+" has what the others have", func() bool { return g.counter(orderer, "consensus_BFT_applied") >= most })
	}
}

// primary is the replica that leads the view that the others are in.
func (g *grid) primary() (name string) {
	g.t.Helper()
	members := g.members()
	g.eventually("all replicas are in one view, and it has begun", func() bool {
		views := map[float64]bool{}
		for _, orderer := range g.named("orderer") {
			view, answers := g.sample(orderer, "consensus_BFT_view")
			if g.nodes[orderer] == nil || g.counter(orderer, "consensus_BFT_active") != 1 || !answers {
				return false
			}
			views[view] = true
		}
		for view := range views {
			at := slices.IndexFunc(g.file.Nodes, func(n network.Node) bool { return n.Address == members[int(view)%len(members)] })
			require.GreaterOrEqual(g.t, at, 0, members)
			name = g.file.Nodes[at].Name
		}
		return len(views) == 1
	})
	return name
}

// TestReplicasAfterAPowerCut: all orderers and peers are killed at once.
func TestReplicasAfterAPowerCut(t *testing.T) {
	g := newGrid(t, append(bft, "--checkpoint-interval", "20")...)
	w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "100")
	g.progress("peer0-org1", 100)
	g.killAll()
	for _, peer := range g.named("peer") {
		g.progress(peer, 100)
	}
	told := w.stop()
	report := g.agree(append(told, g.commits("--chaincode", "kv")...))
	assert.False(t, strings.Contains(strings.Join(report.Verdicts, "\n"), "BAD_PAYLOAD"))
}

// TestReplicasChangeUnderLoad adds a fifth orderer, kills one of the old ones and the leader, gives one another
// certificate, removes one, and the leader, while clients write.
func TestReplicasChangeUnderLoad(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			changeUnderLoad(newGrid(t, fourBy(consenter)...))
		})
	}
}

func changeUnderLoad(g *grid) {
	t := g.t
	w := g.load("--chaincode", "kv", "--clients", "6", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	g.progress("peer0-org1", 50)
	fifth := g.addOrderer()
	g.awaitLog(fifth, "is not one of the 4 consenters and follows them")
	assert.Contains(t, g.config("add-consenter", fifth), "configuration 1 is in force")
	assert.Len(t, g.members(), 5)
	g.progress("peer0-org1", 20)
	g.together()

	// Four of five are needed, so the new one counts.
	g.kill("orderer3", syscall.SIGKILL)
	g.recovers("peer0-org1", "one of the old ones is killed")
	g.start("orderer3")
	g.awaitReady("orderer3")
	g.together()
	leader := g.primary()
	g.kill(leader, syscall.SIGKILL)
	g.recovers("peer0-org1", "the leader is killed")
	g.start(leader)
	g.awaitReady(leader)
	g.together()

	g.must("renew-tls", "--dir", g.dir, "orderer2")
	g.kill("orderer2", syscall.SIGTERM)
	g.start("orderer2")
	g.awaitReady("orderer2")
	assert.Contains(t, g.config("rotate-consenter", "orderer2"), "configuration 2 is in force")
	g.together()
	g.progress("peer0-org1", 20)

	assert.Contains(t, g.config("remove-consenter", "orderer1"), "configuration 3 is in force")
	g.awaitLog("orderer1", "is no longer a consenter and follows")
	g.recovers("peer0-org1", "the leader has left")
	assert.Len(t, g.members(), 4)
	g.kill("orderer4", syscall.SIGKILL)
	g.recovers("peer0-org1", "one of the four is killed")
	g.start("orderer4")
	g.awaitReady("orderer4")

	told := w.stop()
	require.NotEmpty(t, told)
	g.level("orderer1", "orderer2")
	g.level("orderer4", "orderer2")
	report := g.agree(told)
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
	g.sameOrder()
}

// TestARemovedReplicaThatWasAway: two configurations later nobody talks to it. It learns of its removal from the blocks of
// the others, and takes part again where it was added as another consenter.
func TestARemovedReplicaThatWasAway(t *testing.T) {
	for consenter, again := range map[string]bool{"bft": true, "zyzzyva": false} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, fourBy(consenter)...)
			told := g.commits("--chaincode", "kv")
			g.kill("orderer4", syscall.SIGKILL)
			assert.Contains(t, g.config("remove-consenter", "orderer4"), "configuration 1 is in force")
			assert.Contains(t, g.config("add-consenter", g.addOrderer()), "configuration 2 is in force")
			if again {
				assert.Contains(t, g.config("add-consenter", "orderer4"), "configuration 3 is in force")
			}
			told = append(told, g.commits("--chaincode", "kv")...)

			g.start("orderer4")
			g.awaitReady("orderer4")
			g.awaitLog("orderer4", "is no longer a consenter and follows")
			g.level("orderer4", "orderer2")
			if again {
				g.together()
			}
			g.agree(append(told, g.commits("--chaincode", "kv")...))
			g.sameOrder()
		})
	}
}

// TestAReplicaThatIsRemovedWhileItIsAway: the others still hear it, and tell it that its epoch has ended before it has the
// block that says why. It follows without another start.
func TestAReplicaThatIsRemovedWhileItIsAway(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, fourBy(consenter)...)
			told := g.commits("--chaincode", "kv")
			g.kill("orderer4", syscall.SIGKILL)
			assert.Contains(t, g.config("remove-consenter", "orderer4"), "configuration 1 is in force")

			g.start("orderer4")
			g.awaitReady("orderer4")
			g.awaitLog("orderer4", "is no longer a consenter and follows")
			told = append(told, g.commits("--chaincode", "kv")...)
			g.level("orderer4", "orderer2")
			g.agree(told)
			g.sameOrder()
		})
	}
}
