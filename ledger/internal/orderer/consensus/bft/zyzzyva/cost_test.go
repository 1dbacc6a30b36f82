package zyzzyva

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/costtest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// four is a replica of four, with a window of eight.
func four(id bft.ID) (*Core, *costtest.Oracle) {
	cfg := Config{
		ID: id, Group: scripttest.GroupOf(4), Interval: 4, Window: 8, Pending: 8, PendingBytes: 1 << 20,
		Resend: time.Second, Limits: base.Limits{BatchTxs: 1, BatchBytes: 1 << 20, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	o := &costtest.Oracle{}
	return New(cfg, o, bft.State{}, nil), o
}

// stable is a checkpoint of four that a quorum has signed.
func stable(epoch, seq, next uint64) Stable {
	group := bft.Group{Epoch: next, Members: scripttest.GroupOf(4).Members}
	return Stable{Checkpoint: bft.Checkpoint{Epoch: epoch, Seq: seq, Next: group}, Signatures: costtest.Quorum("")}
}

// TestAProofCostsOneCertificate of an epoch, however often it has it: followers may ask for verifications without end.
func TestAProofCostsOneCertificate(t *testing.T) {
	core, o := four(2)
	proof := &Proof{}
	for range 1000 {
		proof.Stable = append(proof.Stable, stable(0, 4, 0))
	}
	assert.Equal(t, 3, o.Costs(core, 9, proof))
	require.EqualValues(t, 4, core.View().Stable)
	assert.Zero(t, o.Costs(core, 9, proof), "it is known")
}

// TestAProofOfSeveralEpochs costs one certificate of each, and has the replica fetch.
func TestAProofOfSeveralEpochs(t *testing.T) {
	proof := &Proof{Stable: []Stable{stable(0, 5, 5), stable(5, 9, 5), stable(5, 13, 5)}}
	core, o := four(2)
	assert.Equal(t, 6, o.Costs(core, 9, proof))
	require.EqualValues(t, 5, core.View().Group.Epoch)
	assert.EqualValues(t, 9, core.View().Stable)
	assert.EqualValues(t, 9, core.Fetching)

	// The end of the epoch is known, and not applied.
	core, o = four(2)
	assert.Equal(t, 3, o.Costs(core, 9, &Proof{Stable: proof.Stable[:1]}))
	require.EqualValues(t, 0, core.View().Group.Epoch)
	assert.Equal(t, 3, o.Costs(core, 9, proof))
	require.EqualValues(t, 5, core.View().Group.Epoch)
	assert.EqualValues(t, 9, core.Fetching)
}

// TestACheckpointThatNoMemberVouchesForIsDropped unread: its next group may be a liar's list.
func TestACheckpointThatNoMemberVouchesForIsDropped(t *testing.T) {
	core, o := four(3)
	vote := func(epoch uint64, members int) *CheckpointVote {
		return &CheckpointVote{Checkpoint: bft.Checkpoint{Seq: 4, Next: bft.Group{Epoch: epoch, Members: scripttest.GroupOf(members).Members}}}
	}
	assert.Zero(t, o.Costs(core, 2, vote(0, 5)))
	assert.Zero(t, o.Costs(core, 2, vote(9, 4)))
	assert.Equal(t, 1, o.Costs(core, 2, vote(0, 4)))
	assert.Equal(t, 1, o.Costs(core, 4, vote(4, 5)), "a configuration's")
	_, err := Decode(Encode(vote(4, bft.MaxMembers+1)))
	assert.ErrorIs(t, err, bft.ErrEncoding)
}

// TestALongBeginningIsNotRead: more digests than a window has, or others than lead to the certificate.
func TestALongBeginningIsNotRead(t *testing.T) {
	costs := func(digests int, seq uint64) int {
		core, o := four(3)
		m := &Start{Stable: Stable{Checkpoint: bft.Checkpoint{Next: scripttest.GroupOf(4)}}, Digests: make([]bft.Digest, digests)}
		m.Certificate = Certificate{View: 1, Start: true, Seq: seq, History: newPlan(m.Stable, m.Digests, core.Start.Seq, 0).history}
		for _, id := range []bft.ID{1, 2, 4} {
			m.Certificate.Signatures = append(m.Certificate.Signatures, bft.Signature{By: id, Bytes: []byte("signed")})
		}
		return o.Costs(core, 2, m)
	}
	assert.Positive(t, costs(8, 8), "a window's are")
	assert.Zero(t, costs(9, 9))
	assert.Zero(t, costs(7, 8))
}

// change is a member's view change with a certificate of its own.
func change(by bft.ID) *ViewChange {
	m := &ViewChange{View: 2, Replica: by, Digests: []bft.Digest{{byte(by)}}, Signature: []byte("signed")}
	m.Stable.Next = scripttest.GroupOf(4)
	m.Certificate = Certificate{View: 1, Seq: 1, History: Chain(Beginning(0), m.Digests[0]), Signatures: costtest.Quorum("signed")}
	return m
}

// TestANewViewThatNoQuorumWantsIsCheap: a liar leads one view in four, and what the view changes rest on is verified last.
func TestANewViewThatNoQuorumWantsIsCheap(t *testing.T) {
	costs := func(spoil func(m *NewView)) int {
		core, o := four(2)
		m := &NewView{View: 2, Changes: []*ViewChange{change(1), change(3), change(4)}, Signature: []byte("signed")}
		spoil(m)
		cost := o.Costs(core, 3, m)
		assert.Zero(t, core.View().View)
		return cost
	}
	assert.Equal(t, 1, costs(func(m *NewView) { m.Signature = costtest.Forged }))
	assert.Equal(t, 4, costs(func(m *NewView) { m.Changes[2].Signature = costtest.Forged }))
	assert.Equal(t, 0, costs(func(m *NewView) { m.Changes[2].View = 1 }))
	assert.Equal(t, 0, costs(func(m *NewView) { m.Changes[2].Replica = 9 }))
	assert.Equal(t, 0, costs(func(m *NewView) { m.Changes[2] = m.Changes[1] }))

	core, o := four(2)
	m := &NewView{View: 2, Changes: []*ViewChange{change(1), change(3), change(4)}, Signature: []byte("signed")}
	assert.Equal(t, 1+3+3*3, o.Costs(core, 3, m))
	assert.EqualValues(t, 2, core.View().View)
}

// TestTheNewestOfSeveralEpochsIsFetched, and no epoch's end before it: the state there holds all before.
func TestTheNewestOfSeveralEpochsIsFetched(t *testing.T) {
	for _, end := range []uint64{5, 13} { // 13 is further than a window, and fetched by itself
		core, _ := four(2)
		e := core.Step(1, bft.Received{From: 9, Message: &Proof{Stable: []Stable{stable(0, end, end), stable(end, end+4, end)}}})
		require.EqualValues(t, end, core.View().Group.Epoch)
		require.NotNil(t, e.Fetch)
		assert.Equal(t, end+4, e.Fetch.Certificate.Seq)
	}
}

// TestACertificateIsReadOnce: clients repeat it, anybody may be one, and each has its own of the same entries.
func TestACertificateIsReadOnce(t *testing.T) {
	core, o := four(2)
	certificates := make([]*Commit, 2)
	history := Beginning(0)
	for i := range certificates {
		entry, seq := &bft.Entry{Txs: [][]byte{{byte(i)}}}, uint64(i+1)
		history = Chain(history, entry.Digest())
		core.Step(1, bft.Received{From: 1, Message: &Order{Seq: seq, History: history, Entry: entry, Signature: []byte("signed")}})
		certificates[i] = &Commit{Certificate{Seq: seq, History: history, Signatures: costtest.Quorum("signed")}}
	}
	require.EqualValues(t, 2, core.View().Last)
	const client = 99
	assert.Equal(t, 3, o.Costs(core, client, certificates[1]))
	for _, m := range certificates {
		assert.Zero(t, o.Costs(core, client, m), "it holds one that is as long")
		sent := core.Step(1, bft.Received{From: client, Message: m}).Send
		assert.Contains(t, sent, bft.Outgoing{To: client, Message: &LocalCommit{Seq: m.Certificate.Seq, History: m.Certificate.History}})
	}
	other := *certificates[0]
	other.Certificate.History[0]++
	assert.Equal(t, 3, o.Costs(core, client, &other))
}

// begins is how view 1 begins with entries of one transaction each.
func begins(entries []*bft.Entry) *Start {
	m := &Start{Stable: Stable{Checkpoint: bft.Checkpoint{Next: scripttest.GroupOf(4)}}}
	for _, e := range entries {
		m.Digests = append(m.Digests, e.Digest())
	}
	p := newPlan(m.Stable, m.Digests, 0, 0)
	m.Certificate = Certificate{View: 1, Start: true, Seq: p.last(), History: p.history, Signatures: costtest.Quorum("signed")}
	return m
}

// TestABeginningIsReadOnce: a liar may repeat it while the replica fetches what the view begins with.
func TestABeginningIsReadOnce(t *testing.T) {
	core, o := four(2)
	m := begins([]*bft.Entry{{Txs: [][]byte{{1}}}})
	assert.Equal(t, 3, o.Costs(core, 4, m))
	require.False(t, core.View().Active, "it lacks the entry")
	assert.Zero(t, o.Costs(core, 4, m))
	again := core.Step(1, bft.Received{From: 4, Message: m})
	assert.Empty(t, again.Persist)
	assert.Empty(t, again.Send)
}

// TestABeginningIsAskedForOnce, entry by entry, and again only after a while: each that comes has the replica look what it lacks.
func TestABeginningIsAskedForOnce(t *testing.T) {
	const lacked = 3
	var entries []*bft.Entry
	for i := range lacked {
		entries = append(entries, &bft.Entry{Txs: [][]byte{{byte(i)}}})
	}
	wanted := func(e bft.Effects) (wants int) {
		for _, out := range e.Send {
			if _, is := out.Message.(*bft.Want); is {
				wants++
			}
		}
		return wants
	}
	core, _ := four(2)
	assert.Equal(t, lacked, wanted(core.Step(1, bft.Received{From: 4, Message: begins(entries)})))
	have := func(seq int) bft.Effects {
		return core.Step(2, bft.Received{From: 1, Message: &bft.Have{Seq: uint64(seq), Entry: entries[seq-1]}})
	}
	assert.Zero(t, wanted(have(1)))
	assert.Equal(t, lacked-1, wanted(core.Step(2+core.cfg.Resend, bft.Tick{})))
	have(2)
	assert.False(t, core.View().Active)
	have(3)
	assert.True(t, core.View().Active)
}
