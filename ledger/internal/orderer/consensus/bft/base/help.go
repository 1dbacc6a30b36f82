package base

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// Help is what a replica remembers of the statuses and requests by which replicas learn what they lack.
type Help struct {
	StatusAt bft.Time   // when it tells its own status next
	Ration   bft.Ration // of entries that others ask for
	AskedAt  bft.Time   // when one of an epoch before told its status

	replies bft.Replies // to statuses
	asked   uint64      // counts requests for entries, so that each goes to another replica
}

// Standing is where the sender of a status stands.
type Standing struct {
	Epoch, View  uint64
	Stable, Last uint64 // sequence numbers, as Progress has them
}

// Busy reports whether the replica waits for something that messages of others would bring.
func (r *Replica[S]) Busy() bool {
	return !r.Active || r.Pending.Len() > 0 || r.Last > r.Applied || r.Behind != 0 || r.Fetching != 0 || r.Closed
}

// Hears takes note of where another replica stands, and reports whether it is to be answered now. Resend is the time between
// two statuses of a busy replica.
func (r *Replica[S]) Hears(from bft.ID, at Standing, resend bft.Time) bool {
	if !r.replies.Due(from, r.Group, r.Now, resend) {
		return false
	}
	if at.Epoch < r.Group.Epoch {
		r.AskedAt = r.Now
	}
	if at.Epoch > r.Group.Epoch || at.Epoch == r.Group.Epoch && (at.View > r.InView || at.Last > r.Last || at.Stable > r.Stable.Point().Seq) {
		r.StatusAt = min(r.StatusAt, r.Now+resend) // the other one has what this replica lacks, and learns so
	}
	return true
}

// Lacks reports whether who stands there lacks the stable checkpoint.
func (r *Replica[S]) Lacks(at Standing) bool {
	return at.Epoch < r.Group.Epoch || at.Epoch == r.Group.Epoch && at.Stable < r.Stable.Point().Seq
}

// Proof is what one in that epoch needs to believe the stable checkpoint: the ends of the epochs since, then the newest.
func (r *Replica[S]) Proof(epoch uint64) (proof []S) {
	for _, end := range r.Ends {
		if end.Point().Epoch >= epoch {
			proof = append(proof, end)
		}
	}
	if r.Stable.Point().Seq > r.Start.Point().Seq {
		proof = append(proof, r.Stable)
	}
	return proof
}

// Together reports whether both are members in that epoch, so that the other's votes count here, and this one's there.
func (r *Replica[S]) Together(with bft.ID, epoch uint64) bool {
	return epoch == r.Group.Epoch && r.Group.Index(with) >= 0 && r.Member()
}

// Want asks for an entry, another replica each time.
func (r *Replica[S]) Want(seq uint64, digest bft.Digest) {
	m := &bft.Want{Epoch: r.Group.Epoch, Seq: seq, Digest: digest}
	for range r.Group.Members {
		to := r.Group.Leader(r.InView + r.asked)
		r.asked++
		if to != r.ID {
			r.Send(to, m)
			return
		}
	}
}
