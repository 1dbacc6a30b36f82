package test

import (
	"os"
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
	g.kill(victim, syscall.SIGTERM)
	data := g.path(g.node(victim).Data)
	require.NoError(t, os.RemoveAll(data))
	g.giveSmallDisk(victim, data, "6m")
	g.start(victim)
	g.awaitReady(victim)
	w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "8000")

	g.endsOfAFullDisk(victim, data)
	g.progress("peer0-org2", 20)

	g.giveRoom(victim, data)
	g.progress(victim, 20)
	g.agree(w.stop())
}

// fullDisks are which of an orderer's folders gets a disk of its own, and how large. A file of Raft's log has 64 MiB.
var fullDisks = []struct {
	consenter, folder, size string
	representative          bool
}{
	{"raft", ".", "70m", false}, {"raft", "channels/mychannel/raft", "66m", true},
	{"bft", ".", "6m", false}, {"bft", "channels/mychannel/bft", "1m", true},
	{"zyzzyva", "channels/mychannel/zyzzyva", "1m", false},
}

// TestReplicasWithAFullDiskEndLoudly gives one of four orderers such a disk. It ends with an error that names the file, the other
// three go on, and with room again it comes back with their order. In the first view of BFT it is the leader.
func TestReplicasWithAFullDiskEndLoudly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk, which needs root")
	}
	for _, c := range fullDisks {
		t.Run(c.consenter+" "+c.folder, func(t *testing.T) {
			selected(t, c.representative)
			g := newGrid(t, append(fourBy(c.consenter), "--checkpoint-interval", "20")...)
			const victim = "orderer1"
			g.kill(victim, syscall.SIGTERM)
			folder := g.path(g.node(victim).Data, c.folder)
			g.giveSmallDisk(victim, folder, c.size)
			g.start(victim)
			g.awaitReady(victim)
			w := g.load("--chaincode", "kv", "--clients", "8", "--value-size", "30000")

			g.endsOfAFullDisk(victim, folder)
			for _, peer := range g.named("peer") {
				g.progress(peer, 50)
			}

			g.giveRoom(victim, folder)
			for _, peer := range g.named("peer") {
				g.progress(peer, 50)
			}
			g.level(victim, "orderer2")
			g.agree(w.stop())
			g.sameOrder()
		})
	}
}

// giveSmallDisk moves a folder of a node that is down to a disk of its own.
func (g *grid) giveSmallDisk(node, data, size string) {
	t := g.t
	t.Helper()
	require.NoError(t, os.MkdirAll(data, 0o755))
	before := data + ".before"
	require.NoError(t, os.Rename(data, before))
	require.NoError(t, os.Mkdir(data, 0o755))
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no small disk can be mounted here: %s", err)
	}
	t.Cleanup(func() {
		if g.nodes[node] != nil {
			assert.NoError(t, g.end(node, syscall.SIGKILL))
		}
		assert.NoError(t, syscall.Unmount(data, 0))
	})
	require.NoError(t, os.CopyFS(data, os.DirFS(before)))
}

// endsOfAFullDisk waits until a node has ended, and reads why.
func (g *grid) endsOfAFullDisk(node, folder string) {
	t := g.t
	t.Helper()
	select {
	case err := <-g.nodes[node].done:
		g.nodes[node].done <- err
		assert.Error(t, err, "a node that cannot write must not end as if all were well")
	case <-time.After(patience):
		t.Fatal(node + " goes on without a disk")
	}
	delete(g.nodes, node)
	raw, err := os.ReadFile(g.path(g.node(node).Log))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	last := lines[len(lines)-1]
	t.Log(last)
	assert.Contains(t, last, folder, "the last line says where")
	assert.Contains(t, last, "no space left on device")
}

// giveRoom makes the disk larger and starts the node again.
func (g *grid) giveRoom(node, data string) {
	g.t.Helper()
	require.NoError(g.t, syscall.Mount("tmpfs", data, "tmpfs", syscall.MS_REMOUNT, "size=512m"))
	g.start(node)
	g.awaitReady(node)
}
