package test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKillTheSequencerAndItsFacadesUnderLoad: what was answered stays, and blocks are alike on every peer, whichever
// facade they follow.
func TestKillTheSequencerAndItsFacadesUnderLoad(t *testing.T) {
	for _, mode := range []string{"stream", "block"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, "--consenter", "sequencer", "--peers-per-org", "1", "--chaincode", kv, "--mode", mode, "--batch-timeout", "200ms")
			w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
			g.progress("peer0-org1", 50)
			for _, victim := range []string{"orderer1", "sequencer1", "orderer2", "sequencer1", "orderer3"} {
				g.kill(victim, syscall.SIGKILL)
				if victim != "sequencer1" { // without it nothing is ordered
					g.progress("peer0-org1", 10)
				}
				g.start(victim)
				g.awaitReady(victim)
				for _, peer := range g.named("peer") {
					g.progress(peer, 30)
				}
			}
			told := w.stop()
			require.NotEmpty(t, told)
			report := g.agree(told)
			t.Logf("told %d, ledger: %v", len(told), report.Codes)
			assert.NotEmpty(t, g.named("broker"))
		})
	}
}
