package zyzzyva

import (
	"crypto/sha256"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Order is the leader's: this entry comes next in its view. Whoever has one may hand it on.
type Order struct {
	Epoch, View, Seq uint64
	History          bft.Digest // after the entry
	Entry            *bft.Entry
	Signature        []byte
}

// Response says that the replica has executed the history up to Seq in View, and executes no other one there. Clients get
// it for their transactions; replicas send it to each other where they settle what is final.
type Response struct {
	Epoch, View, Seq uint64
	History          bft.Digest
	Signature        []byte
	// Order is the leader's signature of the same history; none: the history is older than the view.
	Order []byte
	// Txs are those of the client that the entry has. Between replicas there are none.
	Txs []bft.Digest
	// Final says that they are decided. Then the place may be missing, and nothing is signed.
	Final bool
}

// To is the response for a client that has these transactions in the entry.
func (m *Response) To(txs ...bft.Digest) *Response {
	one := *m
	one.Txs = txs
	return &one
}

// Certificate proves that nothing but History can be decided up to Seq in View: a quorum has signed it.
type Certificate struct {
	Epoch, View, Seq uint64
	History          bft.Digest
	Start            bool // the signatures are of Confirms: the view begins so
	Signatures       []bft.Signature
}

// Commit brings a certificate to a replica.
type Commit struct{ Certificate Certificate }

// LocalCommit says that the replica holds a certificate of View that covers History, durably. It never becomes part of a
// proof, so that the link's word for its sender is enough.
type LocalCommit struct {
	Epoch, View, Seq uint64
	History          bft.Digest
}

// Accuse says that the replica wants View to end. It stays in it until f+1 do.
type Accuse struct{ Epoch, View uint64 }

// Misbehaviour proves that the leader of View has signed two histories for one place.
type Misbehaviour struct {
	Epoch, View, Seq uint64
	Histories        [2]bft.Digest
	Signatures       [2][]byte
}

// CheckpointVote is the sender's signature of a final state that it holds durably.
type CheckpointVote struct {
	Checkpoint bft.Checkpoint
	History    bft.Digest
	Signature  []byte
}

// Stable is a checkpoint with the signatures of a quorum. The one that an epoch begins with needs none.
type Stable struct {
	bft.Checkpoint
	History    bft.Digest
	Signatures []bft.Signature
}

func (s *Stable) certificate() bft.Certificate {
	return bft.Certificate{Checkpoint: s.Checkpoint, Signatures: s.Signatures}
}

// same reports whether both state the same by the same signatures.
func (s *Stable) same(other *Stable) bool {
	return s.History == other.History && s.certificate().Same(other.certificate())
}

// Proof brings stable checkpoints to one who is behind: the ends of the epochs that it has not seen, then the newest.
type Proof struct{ Stable []Stable }

// ViewChange says that the replica has left all views before View, and the history that it has there.
type ViewChange struct {
	Epoch, View uint64
	Stable      Stable
	Digests     []bft.Digest // of the entries after Stable
	// Certificate is of the latest view that the replica was active in, and the longest one there. All of the history after it
	// was accepted in the same view.
	Certificate Certificate
	Replica     bft.ID
	Signature   []byte
}

// NewView is the view changes of a quorum. The history that the view begins with follows from them.
type NewView struct {
	Epoch, View uint64
	Changes     []*ViewChange
	Signature   []byte // the leader's
}

// Confirm says that the replica holds the history that View begins with, and confirms no other one.
type Confirm struct {
	Epoch, View, Seq uint64
	History          bft.Digest
	Signature        []byte
}

// Start proves how a view has begun, to one who has missed that. The certificate is of the history after the digests.
type Start struct {
	Stable      Stable
	Digests     []bft.Digest // of the entries after Stable
	Certificate Certificate
}

// Status says where a replica stands, so that others send what it misses.
type Status struct {
	Epoch, View           uint64
	Active                bool
	Stable, Applied, Last uint64
	History               bft.Digest // after Last
	Final                 bft.Digest // the history after Applied
}

// Ask asks for the entry that a history ends with.
type Ask struct {
	Epoch, Seq uint64
	History    bft.Digest
}

// Tell answers an Ask, with the history before the entry.
type Tell struct {
	Epoch, Seq uint64
	Before     bft.Digest
	Entry      *bft.Entry
}

// Kind implements bft.Message; so do those below.
func (*Order) Kind() string          { return "order" }
func (*Response) Kind() string       { return "response" }
func (*Commit) Kind() string         { return "commit" }
func (*LocalCommit) Kind() string    { return "local-commit" }
func (*Accuse) Kind() string         { return "accuse" }
func (*Misbehaviour) Kind() string   { return "misbehaviour" }
func (*CheckpointVote) Kind() string { return "checkpoint" }
func (*Proof) Kind() string          { return "proof" }
func (*ViewChange) Kind() string     { return "view-change" }
func (*NewView) Kind() string        { return "new-view" }
func (*Confirm) Kind() string        { return "confirm" }
func (*Start) Kind() string          { return "start" }
func (*Status) Kind() string         { return "status" }
func (*Ask) Kind() string            { return "ask" }
func (*Tell) Kind() string           { return "tell" }

// Each signed statement begins with what it is, so that none passes for another, nor for one of another protocol.
const (
	signedOrder = iota + 17
	signedResponse
	signedConfirm
	signedCheckpoint
	signedViewChange
	signedNewView
)

func historyStatement(domain string, kind, epoch, view, seq uint64, history bft.Digest) []byte {
	w := bft.Statement(domain, kind)
	w.Place(epoch, view, seq)
	w.Digest(history)
	return w.Bytes
}

// OrderStatement is what an Order signs. The domain is the channel's name.
func OrderStatement(domain string, epoch, view, seq uint64, history bft.Digest) []byte {
	return historyStatement(domain, signedOrder, epoch, view, seq, history)
}

// ResponseStatement is what a Response signs.
func ResponseStatement(domain string, epoch, view, seq uint64, history bft.Digest) []byte {
	return historyStatement(domain, signedResponse, epoch, view, seq, history)
}

// ConfirmStatement is what a Confirm signs.
func ConfirmStatement(domain string, epoch, view, seq uint64, history bft.Digest) []byte {
	return historyStatement(domain, signedConfirm, epoch, view, seq, history)
}

// CheckpointStatement is what a CheckpointVote signs.
func CheckpointStatement(domain string, c bft.Checkpoint, history bft.Digest) []byte {
	w := bft.Statement(domain, signedCheckpoint)
	w.Checkpoint(c)
	w.Digest(history)
	return w.Bytes
}

// Statement is what the replica signs.
func (m *ViewChange) Statement(domain string) []byte {
	w := bft.Statement(domain, signedViewChange)
	m.body(w)
	return w.Bytes
}

// Statement is what the leader signs.
func (m *NewView) Statement(domain string) []byte {
	w := bft.Statement(domain, signedNewView)
	m.body(w)
	return w.Bytes
}

// Beginning is the history that an epoch begins with.
func Beginning(epoch uint64) bft.Digest {
	w := &bft.Writer{}
	w.Chunk([]byte("history"))
	w.Uint(epoch)
	return sha256.Sum256(w.Bytes)
}

// Chain is the history after one more entry.
func Chain(history, entry bft.Digest) bft.Digest {
	var both [2 * sha256.Size]byte
	copy(both[:], history[:])
	copy(both[sha256.Size:], entry[:])
	return sha256.Sum256(both[:])
}

// Address is a replica's answer for these transactions of its entry.
func Address(answer bft.Message, txs ...bft.Digest) bft.Message { return answer.(*Response).To(txs...) }

// FromClient reports whether a client sends such a message, beside its transactions.
func FromClient(m bft.Message) bool {
	switch m.(type) {
	case *Commit, *Misbehaviour:
		return true
	}
	return false
}

// In implements bft.Dated; so do those below.
func (m *Order) In() uint64          { return m.Epoch }
func (m *Response) In() uint64       { return m.Epoch }
func (m *LocalCommit) In() uint64    { return m.Epoch }
func (m *CheckpointVote) In() uint64 { return m.Checkpoint.Epoch }
func (m *ViewChange) In() uint64     { return m.Epoch }
func (m *NewView) In() uint64        { return m.Epoch }
func (m *Confirm) In() uint64        { return m.Epoch }
func (m *Status) In() uint64         { return m.Epoch }
