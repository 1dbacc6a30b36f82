package zyzzyva

import (
	"crypto/sha256"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// The first byte of each message.
const (
	kindRequest = iota + 1
	kindOrder
	kindResponse
	kindCommit
	kindLocalCommit
	kindAccuse
	kindMisbehaviour
	kindCheckpointVote
	kindProof
	kindViewChange
	kindNewView
	kindConfirm
	kindStart
	kindStatus
	kindAsk
	kindTell
	kindWant
	kindHave
)

// How many bytes an item of a list takes at least.
const (
	leastEntry       = 1 // that there is none
	leastStable      = bft.LeastCheckpoint + sha256.Size + 1
	leastCertificate = 1 + 1 + 1 + sha256.Size + 1 + 1
	leastChange      = 1 + 1 + leastStable + 1 + leastCertificate + 1 + 1
)

// Encode spells a message of this package.
func Encode(m bft.Message) []byte {
	w := &bft.Writer{}
	switch m := m.(type) {
	case *bft.Request:
		w.Uint(kindRequest)
		m.Write(w)
	case *Order:
		w.Bytes = make([]byte, 0, 160+m.Entry.Size()+8*len(m.Entry.Txs))
		w.Uint(kindOrder)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Digest(m.History)
		w.Entry(m.Entry)
		w.Chunk(m.Signature)
	case *Response:
		w.Uint(kindResponse)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Digest(m.History)
		w.Chunk(m.Signature)
		w.Chunk(m.Order)
		writeDigests(w, m.Txs)
		w.Bool(m.Final)
	case *Commit:
		w.Uint(kindCommit)
		m.Certificate.write(w)
	case *LocalCommit:
		w.Uint(kindLocalCommit)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Digest(m.History)
	case *Accuse:
		w.Uint(kindAccuse)
		w.Uint(m.Epoch)
		w.Uint(m.View)
	case *Misbehaviour:
		w.Uint(kindMisbehaviour)
		w.Place(m.Epoch, m.View, m.Seq)
		for i := range m.Histories {
			w.Digest(m.Histories[i])
			w.Chunk(m.Signatures[i])
		}
	case *CheckpointVote:
		w.Uint(kindCheckpointVote)
		w.Checkpoint(m.Checkpoint)
		w.Digest(m.History)
		w.Chunk(m.Signature)
	case *Proof:
		w.Uint(kindProof)
		w.Uint(uint64(len(m.Stable)))
		for i := range m.Stable {
			m.Stable[i].write(w)
		}
	case *ViewChange:
		w.Uint(kindViewChange)
		m.body(w)
		w.Chunk(m.Signature)
	case *NewView:
		w.Uint(kindNewView)
		m.body(w)
		w.Chunk(m.Signature)
	case *Confirm:
		w.Uint(kindConfirm)
		w.Place(m.Epoch, m.View, m.Seq)
		w.Digest(m.History)
		w.Chunk(m.Signature)
	case *Start:
		w.Uint(kindStart)
		m.Stable.write(w)
		writeDigests(w, m.Digests)
		m.Certificate.write(w)
	case *Status:
		w.Uint(kindStatus)
		w.Place(m.Epoch, m.View, m.Stable)
		w.Uint(m.Applied)
		w.Uint(m.Last)
		w.Bool(m.Active)
		w.Digest(m.History)
		w.Digest(m.Final)
	case *Ask:
		w.Uint(kindAsk)
		w.Uint(m.Epoch)
		w.Uint(m.Seq)
		w.Digest(m.History)
	case *Tell:
		w.Uint(kindTell)
		w.Uint(m.Epoch)
		w.Uint(m.Seq)
		w.Digest(m.Before)
		w.Entry(m.Entry)
	case *bft.Want:
		w.Uint(kindWant)
		m.Write(w)
	case *bft.Have:
		w.Uint(kindHave)
		m.Write(w)
	default:
		panic(fmt.Sprintf("zyzzyva: no message: %T", m))
	}
	return w.Bytes
}

func writeDigests(w *bft.Writer, digests []bft.Digest) {
	w.Uint(uint64(len(digests)))
	for _, d := range digests {
		w.Digest(d)
	}
}

func readDigests(r *bft.Reader) []bft.Digest {
	return bft.List(r, sha256.Size, bft.Unbounded, (*bft.Reader).Digest)
}

func (c *Certificate) write(w *bft.Writer) {
	w.Place(c.Epoch, c.View, c.Seq)
	w.Digest(c.History)
	w.Bool(c.Start)
	w.Signatures(c.Signatures)
}

func readCertificate(r *bft.Reader) Certificate {
	return Certificate{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), History: r.Digest(), Start: r.Bool(), Signatures: r.Signatures()}
}

func (s *Stable) write(w *bft.Writer) {
	w.Checkpoint(s.Checkpoint)
	w.Digest(s.History)
	w.Signatures(s.Signatures)
}

func readStable(r *bft.Reader) Stable {
	return Stable{Checkpoint: r.Checkpoint(), History: r.Digest(), Signatures: r.Signatures()}
}

func (m *ViewChange) body(w *bft.Writer) {
	w.Uint(m.Epoch)
	w.Uint(m.View)
	m.Stable.write(w)
	writeDigests(w, m.Digests)
	m.Certificate.write(w)
	w.Uint(m.Replica)
}

func readViewChange(r *bft.Reader) *ViewChange {
	return &ViewChange{
		Epoch: r.Uint(), View: r.Uint(), Stable: readStable(r), Digests: readDigests(r), Certificate: readCertificate(r),
		Replica: r.Uint(), Signature: r.Chunk(),
	}
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

// ClientKind reports whether a message is of a kind that FromClient names. It reads no more of it.
func ClientKind(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == kindCommit || raw[0] == kindMisbehaviour)
}

// Decode reads a message. Its chunks are parts of raw.
func Decode(raw []byte) (bft.Message, error) {
	r := bft.NewReader(raw)
	var m bft.Message
	switch kind := r.Uint(); kind {
	case kindRequest:
		m = bft.ReadRequest(r, pool.Relayed)
	case kindOrder:
		m = &Order{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), History: r.Digest(), Entry: r.Body(), Signature: r.Chunk()}
	case kindResponse:
		m = &Response{
			Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), History: r.Digest(), Signature: r.Chunk(), Order: r.Chunk(),
			Txs: readDigests(r), Final: r.Bool(),
		}
	case kindCommit:
		m = &Commit{Certificate: readCertificate(r)}
	case kindLocalCommit:
		m = &LocalCommit{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), History: r.Digest()}
	case kindAccuse:
		m = &Accuse{Epoch: r.Uint(), View: r.Uint()}
	case kindMisbehaviour:
		proof := &Misbehaviour{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint()}
		for i := range proof.Histories {
			proof.Histories[i], proof.Signatures[i] = r.Digest(), r.Chunk()
		}
		m = proof
	case kindCheckpointVote:
		m = &CheckpointVote{Checkpoint: r.Checkpoint(), History: r.Digest(), Signature: r.Chunk()}
	case kindProof:
		m = &Proof{Stable: bft.List(r, leastStable, bft.Unbounded, readStable)}
	case kindViewChange:
		m = readViewChange(r)
	case kindNewView:
		m = &NewView{
			Epoch: r.Uint(), View: r.Uint(), Changes: bft.List(r, leastChange, bft.MaxMembers, readViewChange), Signature: r.Chunk(),
		}
	case kindConfirm:
		m = &Confirm{Epoch: r.Uint(), View: r.Uint(), Seq: r.Uint(), History: r.Digest(), Signature: r.Chunk()}
	case kindStart:
		m = &Start{Stable: readStable(r), Digests: readDigests(r), Certificate: readCertificate(r)}
	case kindStatus:
		m = &Status{
			Epoch: r.Uint(), View: r.Uint(), Stable: r.Uint(), Applied: r.Uint(), Last: r.Uint(), Active: r.Bool(),
			History: r.Digest(), Final: r.Digest(),
		}
	case kindAsk:
		m = &Ask{Epoch: r.Uint(), Seq: r.Uint(), History: r.Digest()}
	case kindTell:
		m = &Tell{Epoch: r.Uint(), Seq: r.Uint(), Before: r.Digest(), Entry: r.Body()}
	case kindWant:
		m = bft.ReadWant(r)
	case kindHave:
		m = bft.ReadHave(r)
	default:
		return nil, fmt.Errorf("%w: message of kind %d", bft.ErrEncoding, kind)
	}
	return m, r.Err()
}
