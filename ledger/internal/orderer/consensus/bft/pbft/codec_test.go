package pbft

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

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

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) {
	for _, m := range samples() {
		raw := Encode(m)
		read, err := Decode(raw)
		require.NoError(t, err, m.Kind())
		require.Equal(t, m, read, m.Kind())
		for n := range raw {
			_, err := Decode(raw[:n])
			require.Error(t, err, "%s cut off after %d of %d bytes", m.Kind(), n, len(raw))
		}
		_, err = Decode(append(raw, 0))
		require.ErrorIs(t, err, bft.ErrEncoding, m.Kind())
	}
}

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

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	for _, r := range sampleRecords() {
		read, err := DecodeRecord(EncodeRecord(r))
		require.NoError(t, err, r.Kind())
		require.Equal(t, r, read, r.Kind())
	}
}

func decode(raw []byte) { _, _ = Decode(raw) }

// TestWrongCountsCostLittle, in a message and in a record.
func TestWrongCountsCostLittle(t *testing.T) {
	for _, m := range samples() {
		codectest.Hostile(t, Encode(m), decode)
	}
	for _, r := range sampleRecords() {
		codectest.Hostile(t, EncodeRecord(r), func(raw []byte) { _, _ = DecodeRecord(raw) })
	}
}

// TestShortItemsAreRead: none is shorter than what a count is compared with.
func TestShortItemsAreRead(t *testing.T) {
	change := &ViewChange{Stable: bft.Certificate{Signatures: make([]bft.Signature, 9)}, Prepared: make([]Prepared, 9)}
	for _, m := range []bft.Message{
		&bft.Request{Txs: [][]byte{{1}, {2}, {3}}},
		&PrePrepare{Entry: &bft.Entry{Txs: [][]byte{{1}, {2}, {3}}}},
		&Proof{Certificates: make([]bft.Certificate, 9)},
		change,
		&NewView{Changes: slices.Repeat([]*ViewChange{{}}, 9)},
	} {
		raw := Encode(m)
		read, err := Decode(raw)
		require.NoError(t, err, m.Kind())
		require.Equal(t, raw, Encode(read), m.Kind())
	}
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

// FuzzDecode: whatever is read is spelled the same way, so that two spellings never pass for one message, and nothing takes
// much more memory than it is long.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		codectest.Cheap(t, raw, decode)
		m, err := Decode(raw)
		if err == nil {
			require.Equal(t, raw, Encode(m))
		}
	})
}
