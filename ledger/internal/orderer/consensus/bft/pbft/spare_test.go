package pbft_test

import (
	"slices"
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

const spareWait = 100 * time.Millisecond

// spared is the fourth of four replicas, the first of which leads.
type spared struct {
	*pbft.Core
	*costtest.Oracle
	now bft.Time
}

func newSpared() *spared {
	cfg := pbft.Config{
		ID: 4, Group: scripttest.GroupOf(4), Interval: 128, Window: 512, Overlap: 4, Pending: 8, PendingBytes: 1 << 20,
		SpareWait: spareWait, Resend: time.Hour,
		Limits: base.Limits{BatchTxs: 2, BatchBytes: 100, Timeout: time.Hour, MaxTimeout: time.Hour},
	}
	s := &spared{Oracle: &costtest.Oracle{}, now: time.Second}
	s.Core = pbft.New(cfg, s.Oracle, bft.State{}, nil)
	s.Step(s.now, bft.Tick{})
	return s
}

func (s *spared) hears(from bft.ID, m bft.Message) bft.Effects {
	return s.Step(s.now, bft.Received{From: from, Message: m})
}

func entryOf(seq uint64) *bft.Entry { return &bft.Entry{Txs: [][]byte{{byte(seq >> 8), byte(seq)}}} }

func (s *spared) proposed(seq uint64) bft.Effects {
	return s.hears(1, &pbft.PrePrepare{Seq: seq, Entry: entryOf(seq), Signature: []byte("signed")})
}

// decided has the others commit to an entry, and vouch for it where a checkpoint is due.
func (s *spared) decided(seq uint64) (applied bool) {
	for _, id := range []bft.ID{1, 2, 3} {
		e := s.hears(id, &pbft.Commit{Seq: seq, Digest: entryOf(seq).Digest()})
		applied = applied || len(e.Apply) > 0
	}
	if seq%128 == 0 {
		cert := bft.Certificate{Checkpoint: bft.Checkpoint{Seq: seq, Next: scripttest.GroupOf(4)}, Signatures: costtest.Quorum("signed")}
		s.Step(s.now, bft.Synced{Seq: seq, Members: cert.Next.Members})
		s.hears(1, &pbft.Proof{Certificates: []bft.Certificate{cert}})
	}
	return applied
}

func votes(e bft.Effects) bool {
	return slices.ContainsFunc(e.Send, func(out bft.Outgoing) bool {
		_, is := out.Message.(*pbft.Prepare)
		return is
	})
}

// learned has voted for the first entries, each of which has taken so long.
func learned(took time.Duration) (s *spared, next uint64) {
	s = newSpared()
	for seq := uint64(1); ; seq++ {
		if !votes(s.proposed(seq)) {
			return s, seq
		}
		s.now += took
		s.decided(seq)
	}
}

// TestASpareOnlyApplies: it verifies nothing, writes nothing and says nothing, which is what it is good for.
func TestASpareOnlyApplies(t *testing.T) {
	s, seq := learned(time.Millisecond)
	require.EqualValues(t, 17, seq, "it has voted for the first 16")
	s.decided(seq)
	before := s.Verified
	quiet := func(e bft.Effects) {
		t.Helper()
		assert.Empty(t, e.Persist)
		assert.Empty(t, e.Send)
		assert.Equal(t, before, s.Verified)
	}
	seq++
	quiet(s.proposed(seq))
	for _, id := range []bft.ID{2, 3} {
		quiet(s.hears(id, &pbft.Prepare{Seq: seq, Digest: entryOf(seq).Digest(), Signature: []byte("signed")}))
	}
	for _, r := range s.Records() {
		accepted, is := r.(*pbft.AcceptRecord)
		assert.False(t, is && accepted.Seq == seq, "a spare has accepted nothing that a restart must not forget")
	}
	for _, id := range []bft.ID{1, 2} {
		quiet(s.hears(id, &pbft.Commit{Seq: seq, Digest: entryOf(seq).Digest()}))
	}
	last := s.hears(3, &pbft.Commit{Seq: seq, Digest: entryOf(seq).Digest()})
	quiet(last)
	assert.Len(t, last.Apply, 1)
}

// TestASpareWaitsSeveralTimesAsLongAsAnEntryTakes, within bounds, and learns it where it votes itself.
func TestASpareWaitsSeveralTimesAsLongAsAnEntryTakes(t *testing.T) {
	for _, c := range []struct{ took, least, most time.Duration }{
		{0, spareWait / 10, spareWait / 5},
		{time.Millisecond, spareWait / 10, spareWait / 5},
		{10 * time.Millisecond, spareWait * 2 / 5, spareWait / 2},
		{time.Second, spareWait, spareWait},
	} {
		s, seq := learned(c.took)
		began := s.now
		deadline := s.proposed(seq + 1).Deadline
		assert.GreaterOrEqual(t, deadline, began+c.least, c.took)
		assert.LessOrEqual(t, deadline, began+c.most, c.took)
		s.now = deadline - 1
		assert.False(t, votes(s.Step(s.now, bft.Tick{})))
		s.now = deadline
		assert.True(t, votes(s.Step(s.now, bft.Tick{})))
	}
}

// TestASpareThatStepsInVerifiesOneEntryAStep: a leader that lies may have proposed it a window of them, and other messages wait.
func TestASpareThatStepsInVerifiesOneEntryAStep(t *testing.T) {
	s, seq := learned(time.Millisecond)
	for more := range uint64(100) {
		s.proposed(seq + more)
	}
	s.now += spareWait
	for more := range uint64(100) {
		before := s.Verified
		e := s.Step(s.now, bft.Tick{})
		require.True(t, votes(e), seq+more)
		require.LessOrEqual(t, s.Verified-before, 2, "the leader's signature, and the entry's client")
		if more < 99 {
			require.Less(t, e.Deadline-s.now, time.Microsecond, "the next one's turn is at once")
		}
		s.now++
	}
}

// TestAnEntryThatASpareDecidesIsAppliedAtOnce: nothing else may come that would have it applied.
func TestAnEntryThatASpareDecidesIsAppliedAtOnce(t *testing.T) {
	s, seq := learned(time.Millisecond)
	s.proposed(seq)
	for _, id := range []bft.ID{2, 3} {
		s.hears(id, &pbft.Prepare{Seq: seq, Digest: entryOf(seq).Digest(), Signature: []byte("signed")})
		s.hears(id, &pbft.Commit{Seq: seq, Digest: entryOf(seq).Digest()})
	}
	s.now += spareWait
	assert.Len(t, s.Step(s.now, bft.Tick{}).Apply, 1)
}

// TestAMemberThatVotesLateGainsNoTime: where it can delay entries the spare does not learn how long they take.
func TestAMemberThatVotesLateGainsNoTime(t *testing.T) {
	s, seq := learned(time.Millisecond)
	wait := s.proposed(seq+1).Deadline - s.now
	s.decided(seq)
	s.decided(seq + 1)
	for range 256 {
		seq++
		s.proposed(seq + 1)
		s.now += wait - 1
		s.decided(seq + 1)
	}
	assert.Equal(t, wait, s.proposed(seq+2).Deadline-s.now)
}

// TestADeadMemberCostsEverFewerWaits: the spare votes at once for twice as many entries each time.
func TestADeadMemberCostsEverFewerWaits(t *testing.T) {
	s, seq := learned(time.Millisecond)
	var waits []uint64
	for e := s.Step(s.now, bft.Tick{}); seq < 4096; e = s.proposed(seq) {
		if !votes(e) {
			s.now += spareWait
			require.True(t, votes(s.Step(s.now, bft.Tick{})))
			waits = append(waits, seq)
		}
		require.True(t, s.decided(seq), seq)
		seq++
	}
	assert.Equal(t, []uint64{17, 34, 67, 132, 261, 518, 1031, 2056}, waits)
}

// TestASpareVotesAFewTimesWithoutNeed, to learn how long an entry takes.
func TestASpareVotesAFewTimesWithoutNeed(t *testing.T) {
	s, seq := learned(time.Millisecond)
	s.decided(seq)
	var voted []uint64
	for seq++; seq < 1200; seq++ {
		if votes(s.proposed(seq)) {
			voted = append(voted, seq)
		}
		require.True(t, s.decided(seq))
	}
	require.Len(t, voted, 32)
	assert.EqualValues(t, 16+512+1, voted[0])
	assert.EqualValues(t, 16+512+16+512+1, voted[16])
}

// TestASpareKeepsOnlyWhatIsUsualUnverified: a leader that lies could have it keep a window of the largest messages.
func TestASpareKeepsOnlyWhatIsUsualUnverified(t *testing.T) {
	s, seq := learned(time.Millisecond)
	s.decided(seq)
	for _, txs := range [][][]byte{{}, {{1}, {2}, {3}}, {make([]byte, 99), {1, 2}}} {
		s.hears(1, &pbft.PrePrepare{Seq: seq + 1, Entry: &bft.Entry{Txs: txs}, Signature: []byte("signed")})
		assert.Equal(t, seq, s.View().Last, "it is refused")
	}
	large := &bft.Entry{Txs: [][]byte{make([]byte, 101)}}
	assert.True(t, votes(s.hears(1, &pbft.PrePrepare{Seq: seq + 1, Entry: large, Signature: []byte("signed")})), "it is verified")
}
