// Package vouch collects who vouches for which state, until a quorum does.
package vouch

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// kept is how many votes of a member are remembered: a window has few checkpoints.
const kept = 4

// Votes are each member's latest. S is what a vote says of the state after a sequence number.
type Votes[S any] struct {
	group  bft.Group
	latest [][]vote[S] // by member, ascending
}

type vote[S any] struct {
	seq       uint64
	state     S
	signature []byte
}

// New has no votes of the group's members.
func New[S any](group bft.Group) *Votes[S] {
	return &Votes[S]{group: group, latest: make([][]vote[S], len(group.Members))}
}

// Add takes a member's vote. Its first for a sequence number counts.
func (v *Votes[S]) Add(member int, seq uint64, state S, signature []byte) {
	votes := v.latest[member]
	at := 0
	for ; at < len(votes) && votes[at].seq <= seq; at++ {
		if votes[at].seq == seq {
			return
		}
	}
	votes = append(votes, vote[S]{})
	copy(votes[at+1:], votes[at:])
	votes[at] = vote[S]{seq, state, signature}
	if len(votes) > kept {
		votes = votes[1:]
	}
	v.latest[member] = votes
}

// For is the signatures under votes that say the same.
func (v *Votes[S]) For(same func(seq uint64, state S) bool) (signatures []bft.Signature) {
	for at, votes := range v.latest {
		for _, one := range votes {
			if same(one.seq, one.state) {
				signatures = append(signatures, bft.Signature{By: v.group.Members[at], Bytes: one.signature})
			}
		}
	}
	return signatures
}
