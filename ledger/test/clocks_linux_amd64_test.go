package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/porttest"
)

// lent has a node run by a clock from its next start on.
func (g *grid) lent(node string, c clock) *clock {
	g.begin[node] = c.lend
	return &c
}

// wallClock is what a node says that it is.
func (g *grid) wallClock(node string) time.Time {
	g.t.Helper()
	response, err := http.Get("http://" + g.node(node).Operations + "/healthz")
	require.NoError(g.t, err)
	defer func() { _ = response.Body.Close() }()
	var health struct{ Time time.Time }
	require.NoError(g.t, json.NewDecoder(response.Body).Decode(&health))
	return health.Time
}

// runsBy requires that a node goes by the clock that it was lent.
func (g *grid) runsBy(node string, c *clock) {
	g.t.Helper()
	const rounding = time.Microsecond
	now := func() time.Time { return time.Now().Round(0) } // by the wall clock
	earliest := c.shows(now())
	shown := g.wallClock(node)
	assert.False(g.t, shown.Before(earliest.Add(-rounding)) || shown.After(c.shows(now()).Add(rounding)),
		"%s shows %s, where %s and a little more was expected", node, shown, earliest)
}

// TestOrderersWithWrongClocks: of four PBFT orderers the clock of one is right. Another one's host has been up for 100 days
// longer, the third's clock is three hours ahead and slow by half, the fourth's is minutes behind and twice as fast. When
// the right one is killed these are the quorum. It comes back three hours behind, and accepts no certificate: that is one faulty
// orderer, without which the others go on. With its clock set it has what they have.
func TestOrderersWithWrongClocks(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if out, err := exec.Command("unshare", "--time", "--monotonic", "1", "true").CombinedOutput(); err != nil {
		t.Skipf("no time namespaces here: %s", out)
	}
	const uptime = 100 * 24 * 3600 // seconds
	g := &grid{t: t, dir: filepath.Join(t.TempDir(), "net"), nodes: map[string]*process{}, liars: map[string]string{}, begin: map[string]func(*exec.Cmd) error{}}
	g.base = porttest.Take(t)
	g.lay(bft...)
	g.ownPorts()
	g.in = func(node string) []string {
		if node != "orderer2" {
			return nil
		}
		return []string{"unshare", "--time", "--monotonic", fmt.Sprint(uptime), "--boottime", fmt.Sprint(uptime)}
	}
	slow, fast := g.lent("orderer3", clock{off: 3 * time.Hour, rate: 0.5}), g.lent("orderer4", clock{off: -4 * time.Minute, rate: 2})
	g.bringUp()
	offsets, err := os.ReadFile(fmt.Sprintf("/proc/%d/timens_offsets", g.nodes["orderer2"].cmd.Process.Pid))
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(offsets)), " "), fmt.Sprintf("monotonic %d 0", uptime))
	w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	for _, peer := range g.named("peer") {
		g.progress(peer, 50)
	}
	g.together()

	g.kill("orderer1", syscall.SIGKILL)
	g.recovers("peer0-org1", "the orderer whose clock is right is killed")
	g.progress("peer0-org2", 100)
	g.runsBy("orderer3", slow)
	g.runsBy("orderer4", fast)

	behind := g.lent("orderer1", clock{off: -3 * time.Hour, rate: 1})
	g.start("orderer1")
	g.awaitReady("orderer1")
	g.awaitLog("orderer1", "is not yet valid")
	g.runsBy("orderer1", behind)
	for _, peer := range g.named("peer") {
		g.progress(peer, 100)
	}

	g.kill("orderer1", syscall.SIGTERM)
	delete(g.begin, "orderer1")
	g.start("orderer1")
	g.awaitReady("orderer1")
	g.together()
	g.kill("orderer2", syscall.SIGKILL)
	g.recovers("peer0-org1", "the one in a time namespace is killed")
	told := w.stop()
	require.NotEmpty(t, told)
	report := g.agree(told)
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
}
