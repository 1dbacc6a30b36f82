package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// PrePrepare is the leader's proposal. Signed, it is the leader's vote too. Without a signature (see Config.ProposeAtOnce)
// the link alone says whose it is, and the leader's vote is a Prepare.
type PrePrepare struct {
	Epoch, View, Seq uint64
	Entry            *bft.Entry
	Signature        []byte // of the same statement as a Prepare's, or none
}

// Prepare is a vote: this replica votes for nothing else at Seq in View.
type Prepare struct {
	Epoch, View, Seq uint64
	Digest           bft.Digest
	Signature        []byte
}

// Commit says that the sender holds a quorum of votes, durably. It never becomes part of a
// proof, so that the link's word for its sender is enough.
type Commit struct {
	Epoch, View, Seq uint64
	Digest           bft.Digest
	// Decided says that the sender knows of a quorum of commits, in whichever view.
	Decided bool
}

// CheckpointVote is the sender's signature of a checkpoint that it holds durably.
type CheckpointVote struct {
	Checkpoint bft.Checkpoint
	Signature  []byte
}

// Proof brings certificates of checkpoints to one who is behind: the ends of the epochs that it
// has not seen, then the newest.
type Proof struct{ Certificates []bft.Certificate }

// Prepared is a quorum of votes for one digest: nothing else can be decided at Seq in View.
type Prepared struct {
	View, Seq  uint64
	Digest     bft.Digest
	Signatures []bft.Signature
}

// ViewChange says that the replica has left all views before View, and what it holds prepared there.
type ViewChange struct {
	Epoch, View uint64
	Stable      bft.Certificate
	Prepared    []Prepared // by ascending Seq, above Stable
	Replica     bft.ID
	Signature   []byte
}

// NewView is the view changes of a quorum. What the view begins with follows from them, so that
// every replica finds it for itself and there is no claim of the leader to compare.
type NewView struct {
	Epoch, View uint64
	Changes     []*ViewChange
	Signature   []byte // the leader's
}

// Status says where a replica stands, so that others send what it misses.
type Status struct {
	Epoch, View     uint64
	Active          bool
	Stable, Applied uint64
	Last            uint64 // the highest that it has accepted
	// Seen has a bit for each of the 64 sequence numbers after Applied that is accepted in View.
	Seen uint64
}

// Kind implements bft.Message; so do those below.
func (*PrePrepare) Kind() string     { return "pre-prepare" }
func (*Prepare) Kind() string        { return "prepare" }
func (*Commit) Kind() string         { return "commit" }
func (*CheckpointVote) Kind() string { return "checkpoint" }
func (*Proof) Kind() string          { return "proof" }
func (*ViewChange) Kind() string     { return "view-change" }
func (*NewView) Kind() string        { return "new-view" }
func (*Status) Kind() string         { return "status" }

// Each signed statement begins with what it is, so that none passes for another.
const (
	signedPrepare    = 1
	signedCheckpoint = 2
	signedViewChange = 3
	signedNewView    = 4
)

// PrepareStatement is what a PrePrepare and a Prepare sign. The domain is the channel's name.
func PrepareStatement(domain string, epoch, view, seq uint64, digest bft.Digest) []byte {
	w := bft.Statement(domain, signedPrepare)
	w.Uint(epoch)
	w.Uint(view)
	w.Uint(seq)
	w.Digest(digest)
	return w.Bytes
}

// CheckpointStatement is what a CheckpointVote signs.
func CheckpointStatement(domain string, c bft.Checkpoint) []byte {
	w := bft.Statement(domain, signedCheckpoint)
	w.Checkpoint(c)
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

// In implements bft.Dated; so do those below.
func (m *PrePrepare) In() uint64     { return m.Epoch }
func (m *Prepare) In() uint64        { return m.Epoch }
func (m *Commit) In() uint64         { return m.Epoch }
func (m *CheckpointVote) In() uint64 { return m.Checkpoint.Epoch }
func (m *ViewChange) In() uint64     { return m.Epoch }
func (m *NewView) In() uint64        { return m.Epoch }
func (m *Status) In() uint64         { return m.Epoch }
