package pbft_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/costtest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// four is a replica of four, with a window of eight.
func four(id bft.ID) (*pbft.Core, *costtest.Oracle) {
	cfg := pbft.Config{
		ID: id, Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Overlap: 4, Pending: 8, PendingBytes: 1 << 20,
		Resend: time.Second, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	o := &costtest.Oracle{}
	return pbft.New(cfg, o, bft.State{}, nil), o
}

func certificate(seq uint64, text string) bft.Certificate {
	return bft.Certificate{Checkpoint: bft.Checkpoint{Seq: seq, Next: scripttest.GroupOf(4)}, Signatures: costtest.Quorum(text)}
}

// change is a member's view change, with so many entries that it holds prepared.
func change(view uint64, by bft.ID, prepared int) *pbft.ViewChange {
	m := &pbft.ViewChange{View: view, Replica: by, Stable: bft.Certificate{Checkpoint: bft.Checkpoint{Next: scripttest.GroupOf(4)}}, Signature: []byte("signed")}
	for seq := range uint64(prepared) {
		m.Prepared = append(m.Prepared, pbft.Prepared{Seq: seq + 1, Digest: bft.Digest{byte(seq)}, Signatures: costtest.Quorum("signed")})
	}
	return m
}

// TestAProofCostsOneCertificate of an epoch, however often it has it: followers may ask for verifications without end.
func TestAProofCostsOneCertificate(t *testing.T) {
	core, o := four(2)
	proof := &pbft.Proof{}
	for range 1000 {
		proof.Certificates = append(proof.Certificates, certificate(4, "signed"))
	}
	assert.Equal(t, 3, o.Costs(core, 9, proof))
	require.EqualValues(t, 4, core.View().Stable)
	assert.Zero(t, o.Costs(core, 9, proof), "it is known")
}

// TestViewChangesAreCheapUntilTheyCount: what one holds prepared is verified for a new view alone, and once.
func TestViewChangesAreCheapUntilTheyCount(t *testing.T) {
	core, o := four(3)
	for view := range uint64(100) {
		require.Equal(t, 1, o.Costs(core, 2, change(view+1, 2, 8)))
	}
	core, o = four(3)
	leaders := &pbft.NewView{View: 1, Signature: []byte("signed")}
	for _, id := range []bft.ID{1, 2, 4} {
		assert.Equal(t, 1, o.Costs(core, id, change(1, id, 8)))
		leaders.Changes = append(leaders.Changes, change(1, id, 8))
	}
	assert.Equal(t, 1+3*8*3, o.Costs(core, 2, leaders), "the leader's signature, and what was not verified yet")
	assert.True(t, core.View().Active)
}

// TestALeaderVerifiesAViewChangeOnce, however often it counts them.
func TestALeaderVerifiesAViewChangeOnce(t *testing.T) {
	core, o := four(2)
	o.Costs(core, 1, change(1, 1, 8))
	assert.Equal(t, 1+2*8*3, o.Costs(core, 3, change(1, 3, 8)), "with the second it follows f+1 into the view that it leads")
	require.False(t, core.View().Active, "it lacks the entries")
	for range 9 {
		assert.Zero(t, o.Costs(core, 3, &bft.Have{Seq: 9}))
		core.Step(time.Minute, bft.Tick{})
	}
	assert.Equal(t, 1+2*8*3+1, o.Verified)
}

// TestANewViewThatNoQuorumWantsIsCheap: a liar leads one view in four.
func TestANewViewThatNoQuorumWantsIsCheap(t *testing.T) {
	core, o := four(3)
	unsigned := change(1, 1, 8)
	unsigned.Signature = costtest.Forged
	m := &pbft.NewView{View: 1, Changes: []*pbft.ViewChange{change(1, 2, 8), unsigned, change(1, 4, 8)}, Signature: []byte("signed")}
	assert.Equal(t, 3, o.Costs(core, 2, m))
	assert.False(t, core.View().View == 1)

	core, o = four(3)
	m.Changes[1].View = 2
	assert.Zero(t, o.Costs(core, 2, m))
}

// TestACertificateIsBelievedForItsSignatures: where they are others than those that are known they are verified, since a new
// view hands them on to replicas that know none.
func TestACertificateIsBelievedForItsSignatures(t *testing.T) {
	asks := func(text string) (*pbft.Core, int) {
		core, o := four(3)
		o.Costs(core, 1, &pbft.Proof{Certificates: []bft.Certificate{certificate(4, "signed")}})
		m := change(1, 2, 0)
		m.Stable = certificate(4, text)
		cost := o.Costs(core, 2, m)
		o.Costs(core, 4, change(1, 4, 0))
		return core, cost
	}
	core, cost := asks("signed")
	assert.Equal(t, 1, cost)
	assert.EqualValues(t, 1, core.View().View, "f+1 have asked for it")
	core, _ = asks(string(costtest.Forged))
	assert.Zero(t, core.View().View, "one has asked for it")
}

// TestACheckpointThatNoMemberVouchesForIsDropped unread: its next group may be a liar's list.
func TestACheckpointThatNoMemberVouchesForIsDropped(t *testing.T) {
	core, o := four(3)
	cp := bft.Checkpoint{Seq: 4, Next: bft.Group{Epoch: 9, Members: make([]bft.ID, 9)}}
	assert.Zero(t, o.Costs(core, 2, &pbft.CheckpointVote{Checkpoint: cp, Signature: []byte("signed")}))
	cp = bft.Checkpoint{Seq: 4, Next: scripttest.GroupOf(4)}
	assert.Equal(t, 1, o.Costs(core, 2, &pbft.CheckpointVote{Checkpoint: cp, Signature: []byte("signed")}))
}

// TestNothingIsProposedAfterAConfiguration: it is the last entry of its epoch, and what is ordered behind it is not ordered.
func TestNothingIsProposedAfterAConfiguration(t *testing.T) {
	core, _ := four(3)
	accepts := func(seq uint64, e *bft.Entry) bool {
		m := &pbft.PrePrepare{Seq: seq, Entry: e, Signature: []byte("signed")}
		return len(core.Step(1, bft.Received{From: 1, Message: m}).Persist) > 0
	}
	assert.True(t, accepts(3, &bft.Entry{Txs: [][]byte{[]byte("=")}, Config: true}))
	assert.True(t, accepts(2, &bft.Entry{Txs: [][]byte{[]byte("a")}}))
	assert.False(t, accepts(4, &bft.Entry{Txs: [][]byte{[]byte("b")}}))
}

// TestATransactionBehindAConfigurationStillWaits, where the ledger is a window behind what is decided.
func TestATransactionBehindAConfigurationStillWaits(t *testing.T) {
	core, _ := four(4)
	core.Step(1, bft.Submit{Tx: []byte("late")})
	decide := func(seq uint64, e *bft.Entry) {
		core.Step(1, bft.Received{From: 1, Message: &pbft.PrePrepare{Seq: seq, Entry: e, Signature: []byte("signed")}})
		for _, id := range []bft.ID{1, 2} {
			core.Step(1, bft.Received{From: id, Message: &pbft.Commit{Seq: seq, Digest: e.Digest(), Decided: true}})
		}
	}
	for seq := range uint64(8) {
		decide(seq+1, &bft.Entry{Txs: [][]byte{{byte(seq)}}})
	}
	require.EqualValues(t, 8, core.View().Applied)
	core.Step(1, bft.Received{From: 1, Message: &pbft.Proof{Certificates: []bft.Certificate{certificate(4, "signed")}}})
	decide(10, &bft.Entry{Txs: [][]byte{[]byte("late")}})
	require.Equal(t, 1, core.View().Pending)
	decide(9, &bft.Entry{Txs: [][]byte{[]byte("=")}, Config: true})
	assert.EqualValues(t, 8, core.View().Applied, "the ledger has none of these yet")
	assert.Equal(t, 1, core.View().Pending)
}

// TestTheNewestOfSeveralEpochsIsFetched, and no epoch's end before it: the state there holds all before.
func TestTheNewestOfSeveralEpochsIsFetched(t *testing.T) {
	at := func(epoch, seq, next uint64) bft.Certificate {
		group := bft.Group{Epoch: next, Members: scripttest.GroupOf(4).Members}
		return bft.Certificate{Checkpoint: bft.Checkpoint{Epoch: epoch, Seq: seq, Next: group}, Signatures: costtest.Quorum("signed")}
	}
	for _, end := range []uint64{5, 13} { // 13 is further than a window, and fetched by itself
		core, _ := four(2)
		proof := &pbft.Proof{Certificates: []bft.Certificate{at(0, end, end), at(end, end+4, end)}}
		e := core.Step(1, bft.Received{From: 9, Message: proof})
		require.EqualValues(t, end, core.View().Group.Epoch)
		require.NotNil(t, e.Fetch)
		assert.Equal(t, end+4, e.Fetch.Certificate.Seq)
	}
}
