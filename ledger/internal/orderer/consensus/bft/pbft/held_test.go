package pbft_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// received is a message as it comes, and whether its memory is still held.
func received(t *testing.T, m bft.Message) (bft.Message, func() bool) {
	raw := pbft.Encode(m)
	m, err := pbft.Decode(raw)
	require.NoError(t, err)
	return m, codectest.Held(raw)
}

// TestAVoteHoldsASignatureAtMost: a spare has not looked at it, so that it may be anything.
func TestAVoteHoldsASignatureAtMost(t *testing.T) {
	s, seq := newSpared(), uint64(1)
	for ; len(s.proposed(seq).Persist) > 0; seq++ { // it votes at once until it has seen how long that takes
		s.decided(seq)
	}
	vote, held := received(t, &pbft.Prepare{Seq: seq, Digest: entryOf(seq).Digest(), Signature: scripttest.Junk})
	s.hears(2, vote)
	vote = nil
	assert.False(t, held())
	proposal, held := received(t, &pbft.PrePrepare{Seq: seq + 1, Entry: entryOf(seq + 1), Signature: scripttest.Junk})
	s.hears(1, proposal)
	proposal = nil
	assert.False(t, held(), "with its entry")
	s.proposed(seq + 1)
	assert.True(t, s.decided(seq))
	assert.True(t, s.decided(seq+1))
}

// TestAProofOfVotesHoldsNoEntry: it outlives the entry, and has one signature of the message that has brought that.
func TestAProofOfVotesHoldsNoEntry(t *testing.T) {
	s := newSpared()
	proposal, held := received(t, &pbft.PrePrepare{Seq: 1, Entry: entryOf(1), Signature: []byte("signed")})
	s.hears(1, proposal)
	proposal = nil
	var proof *pbft.PreparedRecord
	for _, id := range []bft.ID{2, 3} {
		for _, r := range s.hears(id, &pbft.Prepare{Seq: 1, Digest: entryOf(1).Digest(), Signature: []byte("signed")}).Persist {
			if prepared, is := r.(*pbft.PreparedRecord); is {
				proof = prepared
			}
		}
	}
	s = nil
	require.NotNil(t, proof)
	assert.False(t, held())
	runtime.KeepAlive(proof)
}

// TestARequestIsHeldAsFarAsItWaits: a transaction that is in order may have others beside it that are not.
func TestARequestIsHeldAsFarAsItWaits(t *testing.T) {
	cfg := pbft.Config{ID: 4, Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Pending: 8, PendingBytes: 1 << 20, Resend: time.Hour, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour}}
	core := pbft.New(cfg, scripttest.Short{}, bft.State{}, nil)
	for _, m := range []*bft.Request{{Txs: [][]byte{[]byte("tx"), scripttest.Junk}}, {Txs: [][]byte{[]byte("alone")}}} {
		request, held := received(t, m)
		core.Step(1, bft.Received{From: 2, Message: request})
		request = nil
		assert.Equal(t, len(m.Txs) == 1, held(), "it is copied where it has to be")
	}
	runtime.KeepAlive(core)
}
