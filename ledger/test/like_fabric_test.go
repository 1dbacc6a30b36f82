package test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNodesLikeFabricLogEachCallAndRunOnEveryCore: what measurements of neighbours' effects rely on. With three peers a node
// of any other network has half of the cores.
func TestNodesLikeFabricLogEachCallAndRunOnEveryCore(t *testing.T) {
	g := newGrid(t, "--like-fabric", "--orgs", "1", "--peers-per-org", "3", "--orderers", "1", "--consenter", "solo", "--chaincode", "kv")
	g.onOneProcessor("orderer1")
	w := g.load("--chaincode", "kv", "--clients", "2", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	g.progress("peer0-org1", 20)
	for _, peer := range g.named("peer") {
		assert.EqualValues(t, runtime.GOMAXPROCS(0), g.counter(peer, "go_sched_gomaxprocs_threads"), peer)
	}
	for _, name := range append(g.named("peer"), g.named("orderer")...) {
		assert.Empty(t, g.slackened(name), "%s has threads of another timer slack", name)
	}
	told := w.stop()
	require.NotEmpty(t, told)
	g.agree(told)
	var log []byte
	for _, peer := range g.named("peer") { // clients are spread over them
		its, err := os.ReadFile(g.path(g.node(peer).Log))
		require.NoError(t, err)
		log = append(log, its...)
	}
	calls := regexp.MustCompile(`\[comm\.grpc\.server\] .* unary call completed grpc\.service=gateway\.Gateway grpc\.method=Submit grpc\.peer_address=127\.0\.0\.1:\d+ grpc\.code=OK grpc\.call_duration=`)
	assert.GreaterOrEqual(t, len(calls.FindAll(log, -1)), len(told))
	assert.GreaterOrEqual(t, strings.Count(string(log), "finished chaincode: kv duration: "), len(told))
}

// TestAnotherNetworksNodeOnOneProcessorIsSlackened: what slackened looks for would be found.
func TestAnotherNetworksNodeOnOneProcessorIsSlackened(t *testing.T) {
	g := newGrid(t, "--orgs", "1", "--peers-per-org", "1", "--orderers", "1", "--consenter", "solo", "--chaincode", "kv")
	g.onOneProcessor("orderer1")
	assert.NotEmpty(t, g.slackened("orderer1"))
}

// onOneProcessor starts a node again on one thread for Go, where a node that is not like Fabric has timer slack.
func (g *grid) onOneProcessor(name string) {
	g.t.Helper()
	g.kill(name, syscall.SIGTERM)
	g.begin = map[string]func(*exec.Cmd) error{name: func(cmd *exec.Cmd) error {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		return cmd.Start()
	}}
	g.start(name)
	g.awaitReady(name)
}

// slackened lists those threads of a node that have another timer slack than this process, which started it.
func (g *grid) slackened(name string) (slacks []string) {
	g.t.Helper()
	usual, err := os.ReadFile("/proc/self/timerslack_ns")
	require.NoError(g.t, err)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", g.nodes[name].cmd.Process.Pid))
	require.NoError(g.t, err)
	looked := 0
	for _, thread := range threads {
		slack, err := os.ReadFile(filepath.Join("/proc", filepath.Base(thread), "timerslack_ns"))
		if errors.Is(err, fs.ErrPermission) {
			g.t.Skip("the kernel tells only root (CAP_SYS_NICE) of other processes' timer slack")
		}
		if err != nil {
			continue // the thread has ended
		}
		looked++
		if string(slack) != string(usual) {
			slacks = append(slacks, fmt.Sprintf("%s: %s", thread, strings.TrimSpace(string(slack))))
		}
	}
	require.NotZero(g.t, looked, name)
	return slacks
}
