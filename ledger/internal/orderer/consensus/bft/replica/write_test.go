package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
)

// heard keeps whom a replica has sent messages.
type heard struct {
	consensus.Host
	to []uint64
}

func (h *heard) Send(to uint64, _ consensus.Message) { h.to = append(h.to, to) }

// TestLastVotesLeave of a replica that ends, as one does whose last vote has removed it: the others may lack that vote.
func TestLastVotesLeave(t *testing.T) {
	dir := t.TempDir()
	votes, _, err := votelog.Open(dir)
	require.NoError(t, err)
	host := &heard{}
	n := &Node{
		settings: consensus.Settings{ID: 4}, host: host, log: votes, disk: newQueue[bft.Effects](), work: newQueue[work](),
		protocol: Protocol{Encode: pbft.Encode, EncodeRecord: pbft.EncodeRecord},
	}
	cp := bft.Checkpoint{Seq: 1, Next: bft.Group{Epoch: 1, Members: []bft.ID{1, 2, 3}}}
	n.disk.put(bft.Effects{
		Persist: []bft.Record{&pbft.VoteRecord{Checkpoint: cp}},
		Send: []bft.Outgoing{
			{To: 1, Message: &pbft.CheckpointVote{Checkpoint: cp}}, {To: 2, Message: &pbft.CheckpointVote{Checkpoint: cp}},
		},
	})
	n.disk.close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, n.write(ctx), context.Canceled)
	assert.Equal(t, []uint64{1, 2}, host.to)
	require.NoError(t, votes.Close())
	votes, records, err := votelog.Open(dir)
	require.NoError(t, err)
	assert.Len(t, records, 1)
	require.NoError(t, votes.Close())
}
