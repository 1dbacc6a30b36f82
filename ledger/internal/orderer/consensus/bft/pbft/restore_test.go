package pbft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// TestRestoreInANewEpoch restarts a replica whose records end with its epoch, and then once more, with what it has
// accepted in the next one.
func TestRestoreInANewEpoch(t *testing.T) {
	members := []bft.ID{1, 2, 3, 4}
	cfg := Config{ID: 3, Domain: "ch", Group: bft.Group{Members: members}, Interval: 4, Window: 8}
	end := bft.Checkpoint{Seq: 1, Next: bft.Group{Epoch: 1, Members: members}}
	state := bft.State{Applied: 1, Closed: true}
	records := []bft.Record{&StableRecord{Certificate: bft.Certificate{Checkpoint: end}}}
	replica := New(cfg, &scripttest.Replica{ID: 3}, state, records)
	require.Equal(t, end.Next, replica.View().Group)

	entry := &bft.Entry{Txs: [][]byte{[]byte("a")}}
	records = append(records, replica.Step(0, bft.Tick{}).Persist...)
	records = append(records, &AcceptRecord{Epoch: 1, Seq: 2, Digest: entry.Digest(), Entry: entry})
	again := New(cfg, &scripttest.Replica{ID: 3}, state, records).View()
	require.Equal(t, end.Next, again.Group)
	require.EqualValues(t, 2, again.Last, "the replica has promised not to vote for another entry")
}
