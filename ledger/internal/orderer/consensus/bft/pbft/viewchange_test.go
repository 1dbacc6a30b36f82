package pbft_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// TestANewLeaderAsksOnce for each entry that it lacks, and again only after a while: who is asked gives no more than a ration.
func TestANewLeaderAsksOnce(t *testing.T) {
	const lacked = 3
	cfg := pbft.Config{
		ID: 2, Group: scripttest.GroupOf(4), Interval: 4, Window: 8,
		Resend: time.Second, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	core := pbft.New(cfg, scripttest.Trusting{}, bft.State{}, nil)
	signatures := []bft.Signature{{By: 1, Bytes: []byte("signed")}, {By: 3, Bytes: []byte("signed")}, {By: 4, Bytes: []byte("signed")}}
	var entries []*bft.Entry
	var prepared []pbft.Prepared
	for seq := range uint64(lacked) {
		entry := &bft.Entry{Txs: [][]byte{{byte(seq)}}}
		entries = append(entries, entry)
		prepared = append(prepared, pbft.Prepared{Seq: seq + 1, Digest: entry.Digest(), Signatures: signatures})
	}
	wanted := func(e bft.Effects) (wants int) {
		for _, out := range e.Send {
			if _, is := out.Message.(*bft.Want); is {
				wants++
			}
		}
		return wants
	}
	asked := 0
	for _, id := range []bft.ID{1, 3, 4} {
		change := &pbft.ViewChange{View: 1, Replica: id, Stable: bft.Certificate{Checkpoint: bft.Checkpoint{Next: cfg.Group}}, Prepared: prepared}
		asked += wanted(core.Step(1, bft.Received{From: id, Message: change}))
	}
	assert.Equal(t, 3*lacked, asked, "each of three members, for each entry")
	have := func(seq int) bft.Effects {
		return core.Step(2, bft.Received{From: 1, Message: &bft.Have{Seq: uint64(seq), Entry: entries[seq-1]}})
	}
	assert.Zero(t, wanted(have(1)))
	assert.Equal(t, 3*(lacked-1), wanted(core.Step(2+cfg.Resend, bft.Tick{})))
	have(2)
	assert.False(t, core.View().Active)
	have(3)
	assert.True(t, core.View().Active)
}
