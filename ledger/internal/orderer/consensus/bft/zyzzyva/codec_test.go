package zyzzyva

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
)

var codec = codectest.Codec{Encode: Encode, Decode: Decode, EncodeRecord: EncodeRecord, DecodeRecord: DecodeRecord}

var (
	sampleEntry      = &bft.Entry{Txs: [][]byte{[]byte("a"), []byte("bc")}}
	sampleSignatures = []bft.Signature{{By: 1, Bytes: []byte("one")}, {By: 300, Bytes: []byte("two")}}
	sampleStable     = Stable{
		Checkpoint: bft.Checkpoint{Epoch: 2, Seq: 70, State: bft.Digest{7}, Next: bft.Group{Epoch: 2, Members: []bft.ID{1, 2, 300}}},
		History:    bft.Digest{8}, Signatures: sampleSignatures,
	}
	sampleCertificate = Certificate{Epoch: 2, View: 8, Seq: 72, History: bft.Digest{9}, Start: true, Signatures: sampleSignatures}
	sampleDigests     = []bft.Digest{{1}, {2}}
)

func samples() []bft.Message {
	change := &ViewChange{
		Epoch: 2, View: 9, Stable: sampleStable, Digests: sampleDigests, Certificate: sampleCertificate, Replica: 300, Signature: []byte("me"),
	}
	return []bft.Message{
		&bft.Request{Txs: sampleEntry.Txs},
		&Order{Epoch: 1, View: 2, Seq: 3, History: bft.Digest{4}, Entry: sampleEntry, Signature: []byte("s")},
		&Response{
			Epoch: 1, View: 2, Seq: 3, History: bft.Digest{4}, Signature: []byte("s"), Order: []byte("o"), Txs: sampleDigests, Final: true,
		},
		&Commit{Certificate: sampleCertificate},
		&LocalCommit{Epoch: 1, View: 2, Seq: 3, History: bft.Digest{4}},
		&Accuse{Epoch: 1, View: 2},
		&Misbehaviour{
			Epoch: 1, View: 2, Seq: 3, Histories: [2]bft.Digest{{4}, {5}}, Signatures: [2][]byte{[]byte("one"), []byte("two")},
		},
		&CheckpointVote{Checkpoint: sampleStable.Checkpoint, History: bft.Digest{4}, Signature: []byte("s")},
		&Proof{Stable: []Stable{sampleStable, sampleStable}},
		change,
		&NewView{Epoch: 2, View: 9, Changes: []*ViewChange{change, change}, Signature: []byte("s")},
		&Confirm{Epoch: 1, View: 2, Seq: 3, History: bft.Digest{4}, Signature: []byte("s")},
		&Start{Stable: sampleStable, Digests: sampleDigests, Certificate: sampleCertificate},
		&Status{
			Epoch: 1, View: 2, Active: true, Stable: 3, Applied: 4, Last: 5, History: bft.Digest{6}, Final: bft.Digest{7},
		},
		&Ask{Epoch: 1, Seq: 2, History: bft.Digest{3}},
		&Tell{Epoch: 1, Seq: 2, Before: bft.Digest{3}, Entry: sampleEntry},
		&bft.Want{Epoch: 1, Seq: 2, Digest: bft.Digest{3}},
		&bft.Have{Epoch: 1, Seq: 2, Entry: &bft.Entry{Config: true, Txs: [][]byte{[]byte("c")}}},
	}
}

func sampleRecords() []bft.Record {
	return []bft.Record{
		&ViewRecord{Epoch: 1, View: 2, Active: true},
		&AcceptRecord{Epoch: 1, Seq: 2, History: bft.Digest{3}, Entry: sampleEntry, Order: []byte("o")},
		&CertificateRecord{Certificate: sampleCertificate},
		&ConfirmRecord{Epoch: 1, View: 2, Stable: sampleStable, Digests: sampleDigests, Entries: []*bft.Entry{nil, sampleEntry}},
		&StartRecord{Certificate: sampleCertificate, Final: 74},
		&StableRecord{Stable: sampleStable},
		&VoteRecord{Checkpoint: sampleStable.Checkpoint, History: bft.Digest{4}},
		&BodyRecord{Entry: sampleEntry},
	}
}

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) { codec.Messages(t, samples()) }

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) { codec.Records(t, sampleRecords()) }

func TestWrongCountsCostLittle(t *testing.T) { codec.WrongCounts(t, samples(), sampleRecords()) }

func TestShortItemsAreRead(t *testing.T) {
	codec.Short(t,
		&Proof{Stable: make([]Stable, 9)},
		&ViewChange{Digests: make([]bft.Digest, 9)},
		&NewView{Changes: slices.Repeat([]*ViewChange{{}}, bft.MaxMembers)},
	)
	confirm := &ConfirmRecord{Digests: make([]bft.Digest, 9), Entries: make([]*bft.Entry, 9)}
	read, err := DecodeRecord(EncodeRecord(confirm))
	require.NoError(t, err)
	require.Equal(t, confirm, read)
}

// TestNoMoreIsReadThanThereMayBe: a view change of each member, and an entry for each digest.
func TestNoMoreIsReadThanThereMayBe(t *testing.T) {
	_, err := Decode(Encode(&NewView{Changes: slices.Repeat([]*ViewChange{{}}, bft.MaxMembers+1)}))
	require.ErrorIs(t, err, bft.ErrEncoding)
	for _, entries := range []int{1, 3} {
		_, err = DecodeRecord(EncodeRecord(&ConfirmRecord{Digests: sampleDigests, Entries: make([]*bft.Entry, entries)}))
		require.ErrorIs(t, err, bft.ErrEncoding, entries)
	}
}

// TestAClientsMessagesAreToldByTheirKind, before anything else of them is read.
func TestAClientsMessagesAreToldByTheirKind(t *testing.T) {
	for _, m := range samples() {
		require.Equal(t, FromClient(m), ClientKind(Encode(m)), m.Kind())
	}
	require.False(t, ClientKind(nil))
}

func FuzzDecode(f *testing.F) { codec.Fuzz(f, samples()) }
