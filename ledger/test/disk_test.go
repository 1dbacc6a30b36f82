package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAFullDiskStopsThePeerLoudly gives one peer a disk of 6 MiB. When it is full the peer
// ends with an error that names the file; clients of the other peer notice nothing.
// With room again it comes back, and nothing that it reported is lost.
func TestAFullDiskStopsThePeerLoudly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk, which needs root")
	}
	g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv)
	const victim = "peer0-org1"
	require.NoError(t, g.kill(victim, syscall.SIGTERM))
	data := g.path(g.node(victim).Data)
	require.NoError(t, os.RemoveAll(data))
	require.NoError(t, os.MkdirAll(data, 0o755))
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("no small disk can be mounted here: %s", err)
	}
	t.Cleanup(func() {
		_ = g.kill(victim, syscall.SIGKILL)
		assert.NoError(t, syscall.Unmount(data, 0))
	})
	g.start(victim)
	g.awaitReady(victim)
	w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "8000")

	select {
	case err := <-g.nodes[victim].done:
		g.nodes[victim].done <- err
		assert.Error(t, err, "a peer that cannot write must not end as if all were well")
	case <-time.After(patience):
		t.Fatal("the peer goes on without a disk")
	}
	delete(g.nodes, victim)
	g.progress("peer0-org2", 20)
	raw, err := os.ReadFile(g.path(g.node(victim).Log))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	last := lines[len(lines)-1]
	assert.Contains(t, last, filepath.Join(data, "channels"), "the last line says where")
	assert.Contains(t, last, "no space left on device")

	require.NoError(t, syscall.Mount("tmpfs", data, "tmpfs", syscall.MS_REMOUNT, "size=512m"))
	g.start(victim)
	g.awaitReady(victim)
	g.progress(victim, 20)
	g.agree(w.stop())
}
