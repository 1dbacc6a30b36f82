package zyzzyva_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// TestALiarsMessageIsHeldAsFarAsItCounts: nobody verifies the order in a vote, or what stands beside a transaction.
func TestALiarsMessageIsHeldAsFarAsItCounts(t *testing.T) {
	cfg := zyzzyva.Config{ID: 4, Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Pending: 8, PendingBytes: 1 << 20, Resend: time.Hour, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour}}
	core := zyzzyva.New(cfg, scripttest.Short{}, bft.State{}, nil)
	for name, m := range map[string]bft.Message{
		"a vote":    &zyzzyva.Response{Seq: 3, Signature: []byte("signed"), Order: scripttest.Junk},
		"a request": &bft.Request{Txs: [][]byte{[]byte("tx"), scripttest.Junk}},
	} {
		raw := zyzzyva.Encode(m)
		held := codectest.Held(raw)
		received, err := zyzzyva.Decode(raw)
		require.NoError(t, err)
		core.Step(1, bft.Received{From: 2, Message: received})
		raw, received = nil, nil
		assert.False(t, held(), name)
	}
	runtime.KeepAlive(core)
}
