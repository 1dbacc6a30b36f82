package zyzzyva

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// TestRestoreForgetsCertificateOfAnotherHistory restarts a replica that held a certificate, and heard then that another
// history is final. The others would refuse a view change with both.
func TestRestoreForgetsCertificateOfAnotherHistory(t *testing.T) {
	cfg := Config{ID: 3, Domain: "ch", Group: bft.Group{Members: []bft.ID{1, 2, 3, 4}}, Interval: 4, Window: 8}
	accept := func(tx string) *AcceptRecord {
		e := &bft.Entry{Txs: [][]byte{[]byte(tx)}}
		return &AcceptRecord{Seq: 1, History: Chain(Beginning(0), e.Digest()), Entry: e}
	}
	left, final := accept("left"), accept("final")
	cert := Certificate{Seq: 1, History: left.History}
	for _, id := range []bft.ID{1, 3, 4} {
		cert.Signatures = append(cert.Signatures, bft.Signature{By: id, Bytes: scripttest.Sign(id, ResponseStatement("ch", 0, 0, 1, left.History))})
	}
	records := []bft.Record{left, &CertificateRecord{Certificate: cert}, &ViewRecord{View: 2}, final}
	m := New(cfg, &scripttest.Replica{ID: 3}, bft.State{}, records).changes[2]
	require.Equal(t, []bft.Digest{final.Entry.Digest()}, m.Digests)

	cfg.ID = 4
	other := New(cfg, &scripttest.Replica{ID: 4}, bft.State{}, nil)
	require.True(t, other.provenChange(m))
}

// TestRestoreInANewEpoch restarts a replica whose records end with its epoch, and then once more, with what it has
// accepted in the next one.
func TestRestoreInANewEpoch(t *testing.T) {
	members := []bft.ID{1, 2, 3, 4}
	cfg := Config{ID: 3, Domain: "ch", Group: bft.Group{Members: members}, Interval: 4, Window: 8}
	end := bft.Checkpoint{Seq: 1, Next: bft.Group{Epoch: 1, Members: members}}
	state := bft.State{Applied: 1, Closed: true}
	config := &bft.Entry{Txs: [][]byte{[]byte("=1,2,3,4")}, Config: true}
	history := Chain(Beginning(0), config.Digest())
	records := []bft.Record{
		&AcceptRecord{Seq: 1, History: history, Entry: config},
		&StableRecord{Stable: Stable{Checkpoint: end, History: history}},
	}
	replica := New(cfg, &scripttest.Replica{ID: 3}, state, records)
	require.Equal(t, end.Next, replica.View().Group)

	entry := &bft.Entry{Txs: [][]byte{[]byte("a")}}
	records = append(records, replica.Step(0, bft.Tick{}).Persist...)
	records = append(records, &AcceptRecord{Epoch: 1, Seq: 2, History: Chain(Beginning(1), entry.Digest()), Entry: entry})
	again := New(cfg, &scripttest.Replica{ID: 3}, state, records).View()
	require.Equal(t, end.Next, again.Group)
	require.EqualValues(t, 2, again.Last, "the replica has promised not to accept another entry")
}
