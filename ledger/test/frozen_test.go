package test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFrozenOrderersAreLeft stops (SIGSTOP) each orderer in turn under load: its connections
// stand, but nothing comes from it. Peers and gateways go on with the others.
func TestFrozenOrderersAreLeft(t *testing.T) {
	g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv)
	w := g.load("--chaincode", "kv", "--clients", "6", "--value-size", "100")
	g.progress("peer0-org1", 50)
	for _, orderer := range g.named("orderer") {
		frozen := g.nodes[orderer].cmd.Process
		require.NoError(t, frozen.Signal(syscall.SIGSTOP))
		for _, peer := range g.named("peer") {
			g.progress(peer, 200)
		}
		require.NoError(t, frozen.Signal(syscall.SIGCONT))
	}
	g.agree(w.stop())
}
