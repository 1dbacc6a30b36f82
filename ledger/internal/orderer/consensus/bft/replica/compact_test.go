package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
)

// stabilizing has a stable checkpoint in each step, and as much to keep.
type stabilizing struct{ bft.Core }

func (stabilizing) Records() []bft.Record {
	return []bft.Record{&pbft.StableRecord{Certificate: bft.Certificate{Checkpoint: bft.Checkpoint{Seq: 1}}}}
}

func (s stabilizing) Step(bft.Time, bft.Input) bft.Effects { return bft.Effects{Persist: s.Records()} }

func (stabilizing) View() bft.View { return bft.View{} }

// TestALogOfVotesStaysSmall also where what is to be kept is more than the size at which it is begun anew.
func TestALogOfVotesStaysSmall(t *testing.T) {
	votes, _, err := votelog.Open(t.TempDir(), votelog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = votes.Close() })
	n := &Node{
		core: stabilizing{}, log: votes, disk: newQueue[bft.Effects](), oracle: newOracle(consensus.Settings{}, nil),
		protocol: Protocol{EncodeRecord: pbft.EncodeRecord, Checkpoint: pbft.CheckpointOf},
	}
	n.CompactAt(1)
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
