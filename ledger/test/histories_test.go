package test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGatewaysHearHistories: where orderers answer before they have agreed, gateways find out what is decided: by the
// histories of all orderers, by a certificate where one is dead, and nothing false where one lies.
func TestGatewaysHearHistories(t *testing.T) {
	const gone = "orderer4"
	g := newGrid(t, "--consenter", "zyzzyva", "--orderers", "4", "--peers-per-org", "1", "--chaincode", kv)
	w := g.load("--chaincode", "kv", "--clients", "8", "--accounts", "50", "--value-size", "100", "--workload", "ycsb50")
	by := func(proof string) float64 {
		return g.surely("peer0-org1", "qioi_gateway_ordered_total", `by="`+proof+`"`) + g.surely("peer0-org2", "qioi_gateway_ordered_total", `by="`+proof+`"`)
	}
	g.eventually("all histories are the same", func() bool { return by("all") >= 50 })

	g.kill(gone, syscall.SIGKILL)
	before := by("certificate")
	g.eventually("certificates are made", func() bool { return by("certificate") >= before+10 })
	g.start(gone)
	g.awaitReady(gone)
	before = by("all")
	g.eventually("all histories are the same again", func() bool { return by("all") >= before+10 })

	g.kill(gone, syscall.SIGKILL)
	g.liars[gone] = "1"
	g.start(gone)
	g.goesOnBeside(gone, 100)
	t.Logf("by all %v, certificate %v, word %v", by("all"), by("certificate"), by("word"))
	told := w.stop()
	require.NotEmpty(t, told)
	g.kill(gone, syscall.SIGKILL) // what it would say at its end is no matter
	report := g.agree(told)
	assert.Positive(t, report.Codes["VALID"])
	t.Logf("told %d, ledger: %v", len(told), report.Codes)
}
