package pbft

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

var codec = codectest.Codec{Encode: Encode, Decode: Decode, EncodeRecord: EncodeRecord, DecodeRecord: DecodeRecord}

func sampleChange() *ViewChange {
	signatures := []bft.Signature{{By: 1, Bytes: []byte("one")}, {By: 300, Bytes: []byte("two")}}
	group := bft.Group{Epoch: 2, Members: []bft.ID{1, 2, 300}}
	return &ViewChange{
		Epoch: 2, View: 9, Replica: 300, Signature: []byte("me"),
		Stable:   bft.Certificate{Checkpoint: bft.Checkpoint{Epoch: 2, Seq: 70, State: bft.Digest{7}, Next: group}, Signatures: signatures},
		Prepared: []Prepared{{View: 8, Seq: 71, Digest: bft.Digest{1}, Signatures: signatures}},
	}
}

func samples() []bft.Message {
	digest := bft.TxDigest([]byte("any"))
	entry := &bft.Entry{Txs: [][]byte{[]byte("a"), []byte("bc")}}
	change := sampleChange()
	return []bft.Message{
		&bft.Request{Txs: [][]byte{[]byte("a"), []byte("bc")}},
		&PrePrepare{Epoch: 1, View: 2, Seq: 3, Entry: entry, Signature: []byte("s")},
		&Prepare{Epoch: 1, View: 2, Seq: 3, Digest: digest, Signature: []byte("s")},
		&Commit{Epoch: 1, View: 2, Seq: 3, Digest: digest, Decided: true},
		&CheckpointVote{Checkpoint: change.Stable.Checkpoint, Signature: []byte("s")},
		&Proof{Certificates: []bft.Certificate{change.Stable, change.Stable}},
		change,
		&NewView{Epoch: 2, View: 9, Changes: []*ViewChange{change, change}, Signature: []byte("s")},
		&Status{Epoch: 1, View: 2, Active: true, Stable: 3, Applied: 4, Last: 5, Seen: 1 << 63},
		&bft.Want{Epoch: 1, Seq: 2, Digest: digest},
		&bft.Have{Epoch: 1, Seq: 2, Entry: &bft.Entry{Config: true, Txs: [][]byte{[]byte("c")}}},
	}
}

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) { codec.Messages(t, samples()) }

func sampleRecords() []bft.Record {
	change := sampleChange()
	return []bft.Record{
		&ViewRecord{Epoch: 1, View: 2, Active: true, Base: 3},
		&AcceptRecord{Epoch: 1, View: 2, Seq: 3, Digest: bft.Digest{4}},
		&AcceptRecord{Epoch: 1, View: 2, Seq: 3, Digest: bft.Digest{4}, Entry: &bft.Entry{Txs: [][]byte{[]byte("a")}}},
		&PreparedRecord{Epoch: 1, Prepared: change.Prepared[0]},
		&StableRecord{Certificate: change.Stable},
		&VoteRecord{Checkpoint: change.Stable.Checkpoint},
	}
}

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) { codec.Records(t, sampleRecords()) }

func TestWrongCountsCostLittle(t *testing.T) { codec.WrongCounts(t, samples(), sampleRecords()) }

func TestShortItemsAreRead(t *testing.T) {
	change := &ViewChange{Stable: bft.Certificate{Signatures: make([]bft.Signature, 9)}, Prepared: make([]Prepared, 9)}
	codec.Short(t,
		&bft.Request{Txs: [][]byte{{1}, {2}, {3}}},
		&PrePrepare{Entry: &bft.Entry{Txs: [][]byte{{1}, {2}, {3}}}},
		&Proof{Certificates: make([]bft.Certificate, 9)},
		change,
		&NewView{Changes: slices.Repeat([]*ViewChange{{}}, 9)},
	)
}

// TestNoMoreIsReadThanACorrectReplicaSends where the protocol bounds it.
func TestNoMoreIsReadThanACorrectReplicaSends(t *testing.T) {
	members := func(n int) (g bft.Group) {
		for id := range bft.ID(n) {
			g.Members = append(g.Members, id+1)
		}
		return g
	}
	tx := [][]byte{[]byte("a")}
	for name, m := range map[string]struct {
		most  int
		sized func(int) bft.Message
	}{
		"transactions of a request": {pool.Relayed, func(n int) bft.Message { return &bft.Request{Txs: slices.Repeat(tx, n)} }},
		"transactions of an entry": {bft.MaxTxs, func(n int) bft.Message {
			return &bft.Have{Entry: &bft.Entry{Txs: slices.Repeat(tx, n)}}
		}},
		"members": {bft.MaxMembers, func(n int) bft.Message { return &CheckpointVote{Checkpoint: bft.Checkpoint{Next: members(n)}} }},
		"signatures": {bft.MaxMembers, func(n int) bft.Message {
			return &Proof{Certificates: []bft.Certificate{{Signatures: make([]bft.Signature, n)}}}
		}},
		"view changes": {bft.MaxMembers, func(n int) bft.Message { return &NewView{Changes: slices.Repeat([]*ViewChange{{}}, n)} }},
	} {
		_, err := Decode(Encode(m.sized(m.most)))
		require.NoError(t, err, name)
		_, err = Decode(Encode(m.sized(m.most + 1)))
		require.ErrorIs(t, err, bft.ErrEncoding, name)
	}
}

// TestEmptyTransactionsAreNotRead: no client has signed one.
func TestEmptyTransactionsAreNotRead(t *testing.T) {
	txs := [][]byte{[]byte("a"), {}}
	for _, m := range []bft.Message{&bft.Request{Txs: txs}, &bft.Have{Entry: &bft.Entry{Txs: txs}}} {
		_, err := Decode(Encode(m))
		require.ErrorIs(t, err, bft.ErrEncoding, m.Kind())
	}
}

func FuzzDecode(f *testing.F) { codec.Fuzz(f, samples()) }
