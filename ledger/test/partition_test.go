package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/processtest"
)

// namespaceEnv says that this process has a network and mounts of its own.
const namespaceEnv = "QIOI_TEST_NAMESPACE"

// inNamespace runs a test again in a network namespace of its own, with mounts of its own, and reports whether this is that
// run. What it makes there goes with it.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) != "" {
		return true
	}
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, tool := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if out, err := exec.Command("unshare", "--net", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %s", out)
	}
	cmd := exec.Command("unshare", "--net", "--mount", "--propagation", "private", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), namespaceEnv+"=1", binaryEnv+"="+binary)
	cmd.SysProcAttr = processtest.Mortal()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name()+" (", "it has not run")
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return false
}

// wires is a network of namespaces, one a node, on one of two bridges that do not know each other. This process is on the first.
type wires struct {
	g     *grid
	links map[string]string // by node
}

func (w *wires) ip(args ...string) {
	w.g.t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(w.g.t, err, "ip %s: %s", strings.Join(args, " "), out)
}

// wire gives each node of a network that is laid a namespace and an address.
func wire(g *grid) *wires {
	g.t.Helper()
	w := &wires{g: g, links: map[string]string{}}
	mount := func(args ...string) {
		out, err := exec.Command("mount", args...).CombinedOutput()
		require.NoError(g.t, err, "mount %s: %s", strings.Join(args, " "), out)
	}
	mount("-t", "tmpfs", "none", "/run") // where namespaces have their names
	w.ip("link", "set", "lo", "up")
	for _, bridge := range []string{"near", "far"} {
		w.ip("link", "add", bridge, "type", "bridge")
		w.ip("link", "set", bridge, "up")
	}
	w.ip("addr", "add", "10.77.0.1/24", "dev", "near")
	hosts := "127.0.0.1 localhost\n"
	for i, n := range g.file.Nodes {
		link, address := fmt.Sprint("v", i), fmt.Sprint("10.77.0.", 10+i)
		w.links[n.Name] = link
		w.ip("netns", "add", n.Name)
		w.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", n.Name)
		w.ip("link", "set", link, "master", "near", "up")
		w.ip("-n", n.Name, "link", "set", "lo", "up")
		w.ip("-n", n.Name, "link", "set", "eth0", "up")
		w.ip("-n", n.Name, "addr", "add", address+"/24", "dev", "eth0")
		host, _, _ := strings.Cut(n.Address, ":")
		hosts += address + " " + host + "\n"
	}
	file := filepath.Join(g.t.TempDir(), "hosts")
	require.NoError(g.t, os.WriteFile(file, []byte(hosts), 0o644))
	mount("--bind", file, "/etc/hosts")
	g.in = func(node string) []string { return []string{"nsenter", "--net=/run/netns/" + node} }
	return w
}

// apart cuts these nodes off from all others; among each other they stay connected.
func (w *wires) apart(nodes ...string) {
	w.g.t.Helper()
	for _, node := range nodes {
		w.ip("link", "set", w.links[node], "master", "far")
	}
}

// heal connects all.
func (w *wires) heal() {
	w.g.t.Helper()
	for _, link := range w.links {
		w.ip("link", "set", link, "master", "near")
	}
}

// committed is how many valid transactions a peer has.
func (g *grid) committed(peer string) float64 {
	g.t.Helper()
	return g.surely(peer, "ledger_transaction_count", `validation_code="VALID"`)
}

// TestPartitionedReplicas parts four orderers and two peers in real networks: the leader from all, half from half, a peer
// and one orderer from the others. What has no quorum tells nothing, what has one goes on, and all agree when healed.
func TestPartitionedReplicas(t *testing.T) {
	selected(t, false)
	if !inNamespace(t) {
		return
	}
	g := &grid{t: t, dir: filepath.Join(t.TempDir(), "net"), nodes: map[string]*process{}, liars: map[string]string{}, base: 24000}
	g.lay(append(bft, "--kubernetes", "ledger")...)
	w := wire(g)
	g.bringUp()
	orderers, peers := g.named("orderer"), g.named("peer")
	load := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	g.progress(peers[0], 50)

	w.apart(orderers[0])
	// A link that is cut refuses nothing: what waits for an answer over it waits for a deadline, and TCP sends again ever later.
	g.recovers(peers[0], "the leader is cut off")
	g.progress(peers[1], 50)
	w.heal()
	g.together()

	suspicions := func(orderer string) float64 { return g.counter(orderer, "consensus_BFT_suspicions") }
	third, fourth := g.surely(orderers[2], "consensus_BFT_suspicions"), g.surely(orderers[3], "consensus_BFT_suspicions")
	w.apart(orderers[:2]...)
	g.eventually("the others are sent transactions, and give up a leader without a quorum", func() bool {
		return suspicions(orderers[2]) > third && suspicions(orderers[3]) > fourth
	})
	// Peers may still have to fetch what was ordered before: one of them follows an orderer that is cut off.
	ordered := func() float64 {
		return max(g.surely(orderers[2], "consensus_BFT_applied"), g.surely(orderers[3], "consensus_BFT_applied"))
	}
	stands := ordered()
	require.Positive(t, stands)
	g.stays("nothing is ordered without a quorum", func() bool { return ordered() == stands })
	w.heal()
	g.recovers(peers[0], "half were cut off from half, and are back")
	g.together()

	w.apart(orderers[3], peers[1])
	g.progress(peers[0], 100)
	w.heal()
	ahead := g.committed(peers[0])
	g.eventually("the peer that was cut off has what the other one has", func() bool { return g.committed(peers[1]) >= ahead })
	g.together()

	told := load.stop()
	require.NotEmpty(t, told)
	report := g.agree(told)
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
	assert.NotEmpty(t, report.Codes)
}
