package pbft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
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
		&bft.Request{Txs: [][]byte{[]byte("a"), {}}},
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

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	change := sampleChange()
	for _, r := range []bft.Record{
		&ViewRecord{Epoch: 1, View: 2, Active: true, Base: 3},
		&AcceptRecord{Epoch: 1, View: 2, Seq: 3, Digest: bft.Digest{4}},
		&AcceptRecord{Epoch: 1, View: 2, Seq: 3, Digest: bft.Digest{4}, Entry: &bft.Entry{Txs: [][]byte{[]byte("a")}}},
		&PreparedRecord{Epoch: 1, Prepared: change.Prepared[0]},
		&StableRecord{Certificate: change.Stable},
		&VoteRecord{Checkpoint: change.Stable.Checkpoint},
	} {
		read, err := DecodeRecord(EncodeRecord(r))
		require.NoError(t, err, r.Kind())
		require.Equal(t, r, read, r.Kind())
	}
}

// FuzzDecode: whatever is read is spelled the same way, so that two spellings never pass for one message.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err == nil {
			require.Equal(t, raw, Encode(m))
		}
	})
}
