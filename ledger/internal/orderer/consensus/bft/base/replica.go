// Package base is what the cores that tolerate liars have in common: a replica's place in its group, how far it has come, what
// a step of it makes, how it learns what it misses, and how it brings to the leader what its clients wait for.
package base

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// Limits are of what a replica proposes at once, and of how long it waits for a leader. A configuration may change them.
type Limits struct {
	BatchTxs   int // of an entry; one with more is refused
	BatchBytes int // of an entry, unless it holds a single transaction

	Timeout    bft.Time // that the oldest transaction may wait before the leader is given up
	MaxTimeout bft.Time // that it doubles up to
}

// Replica is embedded in a core. Its fields change while the core is made and in the core's steps: by the methods here, and by
// the core itself. S is what makes a checkpoint of the protocol's stable.
type Replica[S Stable] struct {
	Protocol string // that a fault names
	ID       bft.ID
	Oracle   bft.Oracle

	Now bft.Time    // of this step
	Out bft.Effects // of this step

	Group   bft.Group
	Pending *pool.Pool
	Renew   func() Limits // takes over what the configuration in force says of the protocol, and gives its limits

	Views
	Progress[S]
	Help
}

// Member reports whether it is one of the group.
func (r *Replica[S]) Member() bool { return r.Group.Index(r.ID) >= 0 }

// Persist has a record be durable before anything else of this step happens.
func (r *Replica[S]) Persist(record bft.Record) { r.Out.Persist = append(r.Out.Persist, record) }

// Send has a message leave for another replica, or a client.
func (r *Replica[S]) Send(to bft.ID, m bft.Message) {
	if to != r.ID && to != 0 {
		r.Out.Send = append(r.Out.Send, bft.Outgoing{To: to, Message: m})
	}
}

// Broadcast has a message leave for all other members.
func (r *Replica[S]) Broadcast(m bft.Message) {
	for _, id := range r.Group.Members {
		r.Send(id, m)
	}
}

// Fault stops the replica. The first fault of a step counts.
func (r *Replica[S]) Fault(format string, args ...any) {
	if r.Out.Fault == nil {
		r.Out.Fault = fmt.Errorf(r.Protocol+": "+format, args...)
	}
}

// Quorum is how many members' votes decide.
func (r *Replica[S]) Quorum() int { return quorumOf(r.Group) }

// Weak is f+1: one of so many members is correct.
func (r *Replica[S]) Weak() int { return r.Group.Weak() }

// SignedBy reports whether the signatures are of at least a quorum of different members of g.
func (r *Replica[S]) SignedBy(g bft.Group, statement []byte, signatures []bft.Signature) bool {
	return g.Signed(r.Oracle, quorumOf(g), statement, signatures)
}

// quorumOf is how many of a group's members decide.
func quorumOf(g bft.Group) int { return g.Quorum() }
