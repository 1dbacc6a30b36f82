package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNodesLikeFabricLogEachCallAndRunOnEveryCore: what measurements of neighbours' effects rely on.
func TestNodesLikeFabricLogEachCallAndRunOnEveryCore(t *testing.T) {
	g := newGrid(t, "--like-fabric", "--orgs", "1", "--peers-per-org", "1", "--orderers", "1", "--consenter", "solo", "--chaincode", "kv")
	w := g.load("--chaincode", "kv", "--clients", "2", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	g.progress("peer0-org1", 20)
	told := w.stop()
	require.NotEmpty(t, told)
	g.agree(told)
	log, err := os.ReadFile(g.path(g.node("peer0-org1").Log))
	require.NoError(t, err)
	calls := regexp.MustCompile(`\[comm\.grpc\.server\] .* unary call completed grpc\.service=gateway\.Gateway grpc\.method=Submit grpc\.peer_address=127\.0\.0\.1:\d+ grpc\.code=OK grpc\.call_duration=`)
	assert.GreaterOrEqual(t, len(calls.FindAll(log, -1)), len(told))
	assert.GreaterOrEqual(t, strings.Count(string(log), "finished chaincode: kv duration: "), len(told))
	assert.Empty(t, g.slackened())
}

// slackened names the nodes whose threads have another timer slack than the kernel's default.
func (g *grid) slackened() (names []string) {
	g.t.Helper()
	for name, node := range g.nodes {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", node.cmd.Process.Pid))
		require.NoError(g.t, err)
		for _, thread := range threads {
			slack, err := os.ReadFile(filepath.Join("/proc", filepath.Base(thread), "timerslack_ns"))
			if err == nil && strings.TrimSpace(string(slack)) != "50000" {
				names = append(names, name)
				break
			}
		}
	}
	return names
}
