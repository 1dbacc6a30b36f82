package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

// TestTheOnlyTransactionOfAQuietChannel: its client is told that it is valid although no other one comes that would end a
// virtual block or a checkpoint, and neither ends by time while the test runs.
func TestTheOnlyTransactionOfAQuietChannel(t *testing.T) {
	g := newGrid(t, "--consenter", "zyzzyva", "--orderers", "4", "--peers-per-org", "1", "--chaincode", kv,
		"--virtual-block-interval", (2 * patience).String(), "--virtual-block-txs", "1000")
	u := g.user()
	gateway := gatewaypb.NewGatewayClient(u.dial("peer0-org1"))
	for _, peer := range g.named("peer") {
		g.awaitLog(peer, "is connected") // the chaincode
	}
	ctx, cancel := context.WithTimeout(u.ctx, patience)
	defer cancel()
	began := time.Now()
	_, f, err := u.attempt(ctx, gateway, opPut, "key", "value")
	require.NoError(t, err)
	require.Equal(t, happened, f)
	t.Logf("told after %s", time.Since(began))
}
