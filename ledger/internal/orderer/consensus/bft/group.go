package bft

import (
	"bytes"
	"slices"
)

// Group is who orders during an epoch. Each configuration entry ends one, and its sequence number names the next.
type Group struct {
	Epoch   uint64
	Members []ID // ascending
}

// Faulty is f: how many members may lie.
func (g Group) Faulty() int { return (len(g.Members) - 1) / 3 }

// Quorum is how many votes decide. Any two quorums share a correct member.
func (g Group) Quorum() int { return (len(g.Members)+g.Faulty())/2 + 1 }

// Weak is f+1: one of so many is correct.
func (g Group) Weak() int { return g.Faulty() + 1 }

// Index is the member's place, -1 for others.
func (g Group) Index(id ID) int {
	if at, ok := slices.BinarySearch(g.Members, id); ok {
		return at
	}
	return -1
}

// Leader is who leads a view.
func (g Group) Leader(view uint64) ID {
	if len(g.Members) == 0 {
		return 0
	}
	return g.Members[view%uint64(len(g.Members))]
}

// Signed reports whether at least quorum different members, and nobody else, have signed the statement.
func (g Group) Signed(oracle Oracle, quorum int, statement []byte, signatures []Signature) bool {
	if len(signatures) < quorum || len(signatures) > len(g.Members) {
		return false
	}
	seen := make([]bool, len(g.Members))
	for _, s := range signatures {
		at := g.Index(s.By)
		if at < 0 || seen[at] || !oracle.Verify(s.By, statement, s.Bytes) {
			return false
		}
		seen[at] = true
	}
	return true
}

// Allows reports whether a checkpoint of this group leaves it as it is, or opens the next epoch.
func (g Group) Allows(c Checkpoint) bool {
	return c.Next.Equal(g) || c.Next.Epoch == c.Seq && c.Seq > g.Epoch
}

// Equal reports whether both are the same.
func (g Group) Equal(other Group) bool {
	return g.Epoch == other.Epoch && slices.Equal(g.Members, other.Members)
}

// Signature is a replica's.
type Signature struct {
	By    ID
	Bytes []byte
}

// longestSignature is far above what ECDSA makes, which is 72 bytes.
const longestSignature = 512

// Kept is a copy of a signature that a member has sent: it is a part of the message, which may be of any length. Nil: it is
// none, for its length.
func Kept(signature []byte) []byte {
	if len(signature) > longestSignature {
		return nil
	}
	return bytes.Clone(signature)
}

// Checkpoint is a statement about the state after an entry.
type Checkpoint struct {
	Epoch uint64 // whose members vote on it
	Seq   uint64
	State Digest
	Next  Group // who orders after Seq; of a later epoch where the entry was a configuration
}

// Equal reports whether both state the same.
func (c Checkpoint) Equal(other Checkpoint) bool {
	return c.Epoch == other.Epoch && c.Seq == other.Seq && c.State == other.State && c.Next.Equal(other.Next)
}

// Point is the checkpoint of whatever has one, as a certificate has.
func (c Checkpoint) Point() Checkpoint { return c }

// Ends reports whether the checkpoint ends its epoch.
func (c Checkpoint) Ends() bool { return c.Next.Epoch != c.Epoch }

// Certificate is a checkpoint with the signatures of a quorum. The one at sequence number 0 needs none.
type Certificate struct {
	Checkpoint
	Signatures []Signature
}

// Same reports whether both state the same by the same signatures.
func (c Certificate) Same(other Certificate) bool {
	same := func(a, b Signature) bool { return a.By == b.By && bytes.Equal(a.Bytes, b.Bytes) }
	return c.Checkpoint.Equal(other.Checkpoint) && slices.EqualFunc(c.Signatures, other.Signatures, same)
}
