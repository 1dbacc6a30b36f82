// Package test runs whole networks of real processes and kills them.
package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/internal/processtest"
)

// binary is qioi-ledger, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// binaryEnv names the binary for a test that runs again in a process of its own.
const binaryEnv = "QIOI_TEST_BINARY"

func run(m *testing.M) int {
	if binary = os.Getenv(binaryEnv); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "qioi-ledger-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "qioi-ledger")
	build := exec.Command("go", "build", "-o", binary, "../cmd/qioi-ledger")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %s\n%s", err, out)
		return 1
	}
	return m.Run()
}

// grid is a network of processes in a temporary folder.
type grid struct {
	base  int // the first of its ports
	t     testing.TB
	dir   string
	file  network.File
	nodes map[string]*process
	// in gives the command that a node's own follows, for a node elsewhere than on this host's network; nil: there is none.
	in func(node string) []string
	// begin starts the processes of some nodes in another way than exec.Cmd's own.
	begin map[string]func(*exec.Cmd) error
	// liars are the orderers that lie about the order, and how.
	liars map[string]string
}

type process struct {
	node network.Node
	cmd  *exec.Cmd
	done chan error
}

// newGrid makes and starts a network.
func newGrid(t testing.TB, options ...string) *grid {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a network of processes")
	}
	g := &grid{t: t, dir: filepath.Join(t.TempDir(), "net"), nodes: map[string]*process{}, liars: map[string]string{}}
	g.base = porttest.Take(t)
	g.lay(options...)
	g.ownPorts()
	g.bringUp()
	return g
}

// lay makes a network's files.
func (g *grid) lay(options ...string) {
	g.t.Helper()
	g.must("init", append([]string{"--dir", g.dir, "--base-port", strconv.Itoa(g.base)}, options...)...)
	raw, err := os.ReadFile(filepath.Join(g.dir, network.FileName))
	require.NoError(g.t, err)
	require.NoError(g.t, json.Unmarshal(raw, &g.file))
}

// bringUp starts all nodes, and has them end with the test.
func (g *grid) bringUp() {
	t := g.t
	t.Helper()
	t.Cleanup(func() {
		for name := range g.nodes {
			assert.NoError(t, g.end(name, syscall.SIGKILL), name)
		}
		if t.Failed() {
			g.showLogs()
		}
	})
	for _, n := range g.file.Nodes {
		g.start(n.Name)
	}
	for _, n := range g.file.Nodes {
		g.awaitReady(n.Name)
	}
}

// ownPorts requires that no node is on a port that another test may have.
func (g *grid) ownPorts() {
	g.t.Helper()
	for _, n := range g.file.Nodes {
		porttest.Within(g.t, g.base, n.Address, n.Operations, n.Controller)
	}
}

func (g *grid) node(name string) network.Node {
	for _, n := range g.file.Nodes {
		if n.Name == name {
			return n
		}
	}
	g.t.Fatalf("no node %s", name)
	return network.Node{}
}

func (g *grid) named(role string) (names []string) {
	for _, n := range g.file.Nodes {
		if n.Role == role {
			names = append(names, n.Name)
		}
	}
	return names
}

func (g *grid) start(name string) {
	g.t.Helper()
	n := g.node(name)
	log, err := os.OpenFile(filepath.Join(g.dir, n.Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(g.t, err)
	defer func() { _ = log.Close() }()
	args := append([]string{binary}, n.Args...)
	if g.liars[name] != "" {
		args = []string{liarBinary(g.t)}
	}
	if g.in != nil {
		args = append(g.in(name), args...)
	}
	p := &process{node: n, cmd: exec.Command(args[0], args[1:]...), done: make(chan error, 1)}
	if lies := g.liars[name]; lies != "" {
		p.cmd.Env = append(os.Environ(), "QIOI_TEST_ORDERER="+g.path(n.Config), "QIOI_TEST_LIAR="+lies, "QIOI_TEST_LIES="+g.liesOf(name))
	}
	p.cmd.Dir, p.cmd.Stderr, p.cmd.SysProcAttr = g.dir, log, processtest.Mortal()
	begin := (*exec.Cmd).Start
	if other := g.begin[name]; other != nil {
		begin = other
	}
	require.NoError(g.t, begin(p.cmd))
	go func() { p.done <- p.cmd.Wait() }()
	g.nodes[name] = p
}

// awaitReady waits until a node serves.
func (g *grid) awaitReady(name string) {
	g.t.Helper()
	n := g.node(name)
	g.eventually(name+" is ready", func() bool {
		if n.Operations == "" {
			conn, err := net.DialTimeout("tcp", n.Address, time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}
		response, err := http.Get("http://" + n.Operations + "/healthz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// awaitLog waits until a node has logged a text.
func (g *grid) awaitLog(name, text string) {
	g.t.Helper()
	g.eventually(name+" logs "+text, func() bool {
		log, err := os.ReadFile(g.path(g.node(name).Log))
		return err == nil && strings.Contains(string(log), text)
	})
}

// patience ends a test that has failed. No host is so slow that what must come takes as long.
const patience = 3 * time.Minute

// eventually waits for what must come.
func (g *grid) eventually(what string, reached func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if reached() {
			return
		}
	}
	g.t.Fatalf("it did not come about: %s", what)
}

// stays looks a hundred times at what must not change: one look at the right moment shows nothing of what is to last.
func (g *grid) stays(what string, is func() bool) {
	g.t.Helper()
	for range 100 {
		if !is() {
			g.t.Fatalf("it did not stay so: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// end ends a node with a signal. The error is that it did not run any more, or that something else has ended it.
func (g *grid) end(name string, signal syscall.Signal) error {
	p := g.nodes[name]
	if p == nil {
		return errors.New("it does not run")
	}
	delete(g.nodes, name)
	return processtest.End(p.cmd, signal, func() error { return <-p.done })
}

// kill requires that a signal ends a node: one that has ended by itself has failed.
func (g *grid) kill(name string, signal syscall.Signal) {
	g.t.Helper()
	require.NoError(g.t, g.end(name, signal), name)
}

// killAtOnce is a power cut for these nodes, but for their disks.
func (g *grid) killAtOnce(names ...string) {
	g.t.Helper()
	for _, name := range names {
		require.NoError(g.t, g.nodes[name].cmd.Process.Signal(syscall.SIGKILL), name)
	}
	for _, name := range names {
		g.kill(name, syscall.SIGKILL)
	}
}

// killAll kills all nodes at once and starts them again.
func (g *grid) killAll() {
	g.t.Helper()
	g.killAtOnce(slices.Collect(maps.Keys(g.nodes))...)
	for _, n := range g.file.Nodes {
		g.start(n.Name)
	}
	for _, n := range g.file.Nodes {
		g.awaitReady(n.Name)
	}
}

// stopAll ends all nodes in an orderly way.
func (g *grid) stopAll() {
	g.t.Helper()
	for name := range g.nodes {
		g.kill(name, syscall.SIGTERM)
	}
}

func (g *grid) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, append([]string{name}, args...)...)
	cmd.Dir, cmd.SysProcAttr = g.dir, processtest.Mortal()
	return cmd
}

func (g *grid) must(name string, args ...string) []byte {
	g.t.Helper()
	cmd := exec.Command(binary, append([]string{name}, args...)...)
	cmd.SysProcAttr = processtest.Mortal()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		g.t.Fatalf("%s %s: %s\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	require.NoError(g.t, err)
	return out
}

func (g *grid) path(parts ...string) string {
	return filepath.Join(append([]string{g.dir}, parts...)...)
}

func (g *grid) ledger(node string) string {
	return g.path(g.node(node).Data, "channels", g.file.Channels[0])
}

func (g *grid) inspect(node string) chain.Report {
	g.t.Helper()
	var report chain.Report
	require.NoError(g.t, json.Unmarshal(g.must("inspect", "--json", "--verdicts", g.ledger(node)), &report), node)
	return report
}

// counter sums the samples of a series whose labels contain all of these texts; 0: the node does not answer.
func (g *grid) counter(node, series string, labels ...string) float64 {
	sum, _ := g.sample(node, series, labels...)
	return sum
}

// surely is the same of a node that answers in the end: where it counts later, 0 would be no beginning.
func (g *grid) surely(node, series string, labels ...string) (sum float64) {
	g.t.Helper()
	g.eventually(node+" says what it has counted", func() (answers bool) {
		sum, answers = g.sample(node, series, labels...)
		return answers
	})
	return sum
}

func (g *grid) sample(node, series string, labels ...string) (sum float64, answers bool) {
	response, err := http.Get("http://" + g.node(node).Operations + "/metrics")
	if err != nil {
		return 0, false
	}
	defer func() { _ = response.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		return 0, false
	}
next:
	for line := range strings.Lines(text.String()) {
		fields := strings.Fields(line)
		if name, _, _ := strings.Cut(line, "{"); len(fields) != 2 || (name != series && fields[0] != series) {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue next
			}
		}
		if value, err := strconv.ParseFloat(fields[1], 64); err == nil {
			sum += value
		}
	}
	return sum, true
}

func (g *grid) showLogs() {
	for _, n := range g.file.Nodes {
		raw, err := os.ReadFile(g.path(n.Log))
		if err != nil {
			continue
		}
		if len(raw) > 2000 {
			raw = raw[len(raw)-2000:]
		}
		g.t.Logf("%s:\n%s", n.Name, raw)
	}
}
