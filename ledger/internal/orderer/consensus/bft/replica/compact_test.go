package replica

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
)

// stabilizing has a stable checkpoint in each step, and as much to keep, with so many bytes of signatures.
type stabilizing struct {
	bft.Core
	signed *int
}

func (s stabilizing) Records() []bft.Record {
	certificate := bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 1}}
	if s.signed != nil {
		certificate.Signatures = []bft.Signature{{By: 1, Bytes: make([]byte, *s.signed)}}
	}
	return []bft.Record{&pbft.StableRecord{Certificate: certificate}}
}

func (s stabilizing) Step(bft.Time, bft.Input) bft.Effects { return bft.Effects{Persist: s.Records()} }

func (stabilizing) View() bft.View { return bft.View{} }

// compacting is a replica whose log of votes is begun anew at so many bytes.
func compacting(t *testing.T, core bft.Core, bytes int64) (*Node, *votelog.Log) {
	votes, _, err := votelog.Open(t.TempDir(), votelog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = votes.Close() })
	n := &Node{
		core: core, log: votes, disk: newQueue[bft.Effects](), oracle: newOracle(consensus.Settings{}, nil),
		protocol: Protocol{EncodeRecord: pbft.EncodeRecord, Checkpoint: pbft.CheckpointOf},
	}
	n.CompactAt(bytes)
	return n, votes
}

// TestALogOfVotesIsSmallAgain once what is to be kept is: a window of large entries is no reason to keep as much for ever.
func TestALogOfVotesIsSmallAgain(t *testing.T) {
	signed := 1 << 20
	n, votes := compacting(t, stabilizing{signed: &signed}, 1<<10)
	for range 4 {
		n.take(bft.Tick{})
		require.NoError(t, n.persist(n.disk.take()))
	}
	require.Greater(t, votes.Size(), int64(1<<20))
	signed = 1
	for range 100 {
		n.take(bft.Tick{})
		require.NoError(t, n.persist(n.disk.take()))
	}
	assert.Less(t, votes.Size(), int64(4<<10))
}

// TestAStepThatChangesNothingWakesNobody: most votes change nothing yet.
func TestAStepThatChangesNothingWakesNobody(t *testing.T) {
	n, _ := compacting(t, resting{}, 1<<10)
	n.take(bft.Tick{})
	assert.Empty(t, n.disk.items)
	for name, e := range map[string]bft.Effects{
		"persist": {Persist: make([]bft.Record, 1)}, "send": {Send: make([]bft.Outgoing, 1)}, "apply": {Apply: make([]bft.Ordered, 1)},
		"answer": {Answer: make([]bft.Answer, 1)}, "fetch": {Fetch: &bft.Fetch{}}, "fault": {Fault: errors.New("broken")},
	} {
		assert.True(t, hasWork(e), name)
	}
}

// resting is a core that does nothing.
type resting struct{ bft.Core }

func (resting) Step(bft.Time, bft.Input) bft.Effects { return bft.Effects{Deadline: 0} }

func (resting) View() bft.View { return bft.View{} }

// TestALogOfVotesStaysSmall also where what is to be kept is more than the size at which it is begun anew.
func TestALogOfVotesStaysSmall(t *testing.T) {
	n, votes := compacting(t, stabilizing{}, 1)
	n.take(bft.Tick{})
	require.NoError(t, n.persist(n.disk.take()))
	kept := votes.Size()
	sizes := map[int64]bool{}
	for range 50 {
		n.take(bft.Tick{})
		require.NoError(t, n.persist(n.disk.take()))
		sizes[votes.Size()] = true
		assert.Less(t, votes.Size(), 4*kept)
	}
	assert.Greater(t, len(sizes), 1, "it is not written anew each time")
}
