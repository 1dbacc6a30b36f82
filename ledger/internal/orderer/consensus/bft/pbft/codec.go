package pbft

import (
	"crypto/sha256"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// The first byte of each message and record.
const (
	kindRequest = iota + 1
	kindPrePrepare
	kindPrepare
	kindCommit
	kindCheckpointVote
	kindProof
	kindViewChange
	kindNewView
	kindStatus
	kindWant
	kindHave
	kindViewRecord
	kindAcceptRecord
	kindPreparedRecord
	kindStableRecord
	kindVoteRecord
)

// How many bytes an item of a list takes at least.
const (
	leastPrepared = 1 + 1 + sha256.Size + 1
	leastChange   = 1 + 1 + bft.LeastCertificate + 1 + 1 + 1
)

// roomFor is where an entry and what surrounds it have room.
func roomFor(e *bft.Entry) []byte {
	if e == nil {
		return nil
	}
	return make([]byte, 0, 192+e.Size()+8*len(e.Txs))
}

// Encode spells a message of this package.
func Encode(m bft.Message) []byte {
	w := &bft.Writer{Bytes: make([]byte, 0, 192)}
	switch m := m.(type) {
	case *bft.Request:
		w.Uint(kindRequest)
		m.Write(w)
	case *PrePrepare:
		w.Bytes = roomFor(m.Entry)
		w.Uint(kindPrePrepare)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Entry(m.Entry)
		w.Chunk(m.Signature)
	case *Prepare:
		w.Uint(kindPrepare)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Digest(m.Digest)
		w.Chunk(m.Signature)
	case *Commit:
		w.Uint(kindCommit)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Digest(m.Digest)
		w.Bool(m.Decided)
	case *CheckpointVote:
		w.Uint(kindCheckpointVote)
		w.Checkpoint(m.Checkpoint)
		w.Chunk(m.Signature)
	case *Proof:
		w.Uint(kindProof)
		w.Uint(uint64(len(m.Certificates)))
		for _, c := range m.Certificates {
			w.Certificate(c)
		}
	case *ViewChange:
		w.Uint(kindViewChange)
		m.body(w)
		w.Chunk(m.Signature)
	case *NewView:
		w.Uint(kindNewView)
		m.body(w)
		w.Chunk(m.Signature)
	case *Status:
		w.Uint(kindStatus)
		w.Place(m.Epoch, m.View, m.Stable)
		w.Uint(m.Applied)
		w.Uint(m.Last)
		w.Bool(m.Active)
		w.Uint(m.Seen)
	case *bft.Want:
		w.Uint(kindWant)
		m.Write(w)
	case *bft.Have:
		w.Uint(kindHave)
		m.Write(w)
	default:
		panic(fmt.Sprintf("pbft: no message: %T", m))
	}
	return w.Bytes
}

func (m *ViewChange) body(w *bft.Writer) {
	w.Uint(m.Epoch)
	w.Uint(m.View)
	w.Certificate(m.Stable)
	w.Uint(uint64(len(m.Prepared)))
	for _, p := range m.Prepared {
		p.write(w)
	}
	w.Uint(m.Replica)
}

func (m *NewView) body(w *bft.Writer) {
	w.Uint(m.Epoch)
	w.Uint(m.View)
	w.Uint(uint64(len(m.Changes)))
	for _, c := range m.Changes {
		c.body(w)
		w.Chunk(c.Signature)
	}
}

func (p *Prepared) write(w *bft.Writer) {
	w.Uint(p.View)
	w.Uint(p.Seq)
	w.Digest(p.Digest)
	w.Signatures(p.Signatures)
}

// Decode reads a message. Its chunks are parts of raw.
func Decode(raw []byte) (bft.Message, error) {
	r := bft.NewReader(raw)
	var m bft.Message
	switch kind := r.Uint(); kind {
	case kindRequest:
		m = bft.ReadRequest(r, pool.Relayed)
	case kindPrePrepare:
		m = &PrePrepare{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), Entry: r.Body(), Signature: r.Chunk()}
	case kindPrepare:
		m = &Prepare{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), Digest: r.Digest(), Signature: r.Chunk()}
	case kindCommit:
		m = &Commit{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), Digest: r.Digest(), Decided: r.Bool()}
	case kindCheckpointVote:
		m = &CheckpointVote{Checkpoint: r.Checkpoint(), Signature: r.Chunk()}
	case kindProof:
		m = &Proof{Certificates: bft.List(r, bft.LeastCertificate, bft.Unbounded, (*bft.Reader).Certificate)}
	case kindViewChange:
		m = readViewChange(r)
	case kindNewView:
		m = &NewView{
			Epoch: r.Uint(), View: r.Uint(), Changes: bft.List(r, leastChange, bft.MaxMembers, readViewChange), Signature: r.Chunk(),
		}
	case kindStatus:
		m = &Status{Epoch: r.Uint(), View: r.Uint(), Stable: r.Uint(), Applied: r.Uint(), Last: r.Uint(), Active: r.Bool(), Seen: r.Uint()}
	case kindWant:
		m = bft.ReadWant(r)
	case kindHave:
		m = bft.ReadHave(r)
	default:
		return nil, fmt.Errorf("%w: message of kind %d", bft.ErrEncoding, kind)
	}
	return m, r.Err()
}

func readViewChange(r *bft.Reader) *ViewChange {
	return &ViewChange{
		Epoch: r.Uint(), View: r.Uint(), Stable: r.Certificate(), Prepared: bft.List(r, leastPrepared, bft.Unbounded, readPrepared),
		Replica: r.Uint(), Signature: r.Chunk(),
	}
}

func readPrepared(r *bft.Reader) Prepared {
	return Prepared{View: r.Uint(), Seq: r.Uint(), Digest: r.Digest(), Signatures: r.Signatures()}
}

// EncodeRecord spells a record of this package.
func EncodeRecord(record bft.Record) []byte {
	w := &bft.Writer{}
	switch record := record.(type) {
	case *ViewRecord:
		w.Uint(kindViewRecord)
		w.Place(record.Epoch, record.View, record.Base)
		w.Bool(record.Active)
	case *AcceptRecord:
		w.Bytes = roomFor(record.Entry)
		w.Uint(kindAcceptRecord)
		w.Place(record.Epoch, record.View, record.Seq)
		w.Digest(record.Digest)
		w.Entry(record.Entry)
	case *PreparedRecord:
		w.Uint(kindPreparedRecord)
		w.Uint(record.Epoch)
		record.Prepared.write(w)
	case *StableRecord:
		w.Uint(kindStableRecord)
		w.Certificate(record.Certificate)
	case *VoteRecord:
		w.Uint(kindVoteRecord)
		w.Checkpoint(record.Checkpoint)
	default:
		panic(fmt.Sprintf("pbft: no record: %T", record))
	}
	return w.Bytes
}

// DecodeRecord reads a record. Its chunks are parts of raw.
func DecodeRecord(raw []byte) (bft.Record, error) {
	r := bft.NewReader(raw)
	var record bft.Record
	switch kind := r.Uint(); kind {
	case kindViewRecord:
		record = &ViewRecord{Epoch: r.Uint(), View: r.Uint(), Base: r.Uint(), Active: r.Bool()}
	case kindAcceptRecord:
		record = &AcceptRecord{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), Digest: r.Digest(), Entry: r.Entry()}
	case kindPreparedRecord:
		record = &PreparedRecord{Epoch: r.Uint(), Prepared: readPrepared(r)}
	case kindStableRecord:
		record = &StableRecord{Certificate: r.Certificate()}
	case kindVoteRecord:
		record = &VoteRecord{Checkpoint: r.Checkpoint()}
	default:
		return nil, fmt.Errorf("%w: record of kind %d", bft.ErrEncoding, kind)
	}
	return record, r.Err()
}
