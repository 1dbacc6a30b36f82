package pbft_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// TestOneThatIsFarBehindAcceptsNoMore than two windows beyond what its ledger has: what it accepts waits for its disk.
func TestOneThatIsFarBehindAcceptsNoMore(t *testing.T) {
	group := scripttest.GroupOf(4)
	cfg := pbft.Config{ID: 4, Group: group, Interval: 4, Window: 8, Resend: time.Second, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour}}
	core := pbft.New(cfg, scripttest.Trusting{}, bft.State{}, nil)
	stable := bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 12, Next: group}}
	for _, id := range []bft.ID{1, 2, 3} {
		stable.Signatures = append(stable.Signatures, bft.Signature{By: id, Bytes: []byte("signed")})
	}
	e := core.Step(1, bft.Received{From: 1, Message: &pbft.Proof{Certificates: []bft.Certificate{stable}}})
	require.NotNil(t, e.Fetch, "it is a window behind")
	accepts := func(seq uint64) bool {
		entry := &bft.Entry{Txs: [][]byte{{byte(seq)}}}
		e := core.Step(1, bft.Received{From: 1, Message: &pbft.PrePrepare{Seq: seq, Entry: entry, Signature: []byte("signed")}})
		return len(e.Persist) > 0
	}
	assert.True(t, accepts(16))
	assert.False(t, accepts(17))
	core.Step(1, bft.Fetched{Seq: 12})
	assert.True(t, accepts(17))
}
