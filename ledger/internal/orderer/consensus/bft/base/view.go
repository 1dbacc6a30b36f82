package base

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/suspect"
)

// Views is which view of its epoch a replica is in.
type Views struct {
	InView     uint64 // the latest view; Active says whether it has begun
	Active     bool
	Suspect    suspect.Timer // of the view's leader
	Suspicions uint64        // views that the replica has given up since it was made
}

// Leader is who leads the view.
func (r *Replica[S]) Leader() bft.ID { return r.Group.Leader(r.InView) }

// Leads reports whether it leads a view that has begun.
func (r *Replica[S]) Leads() bool { return r.Active && r.Leader() == r.ID }

// AwaitsLeader watches for the beginning of a view that has not begun, and leaves it for the next one where it comes late. It
// returns the transaction that waits longest, and reports whether a leader is at work whom the core is to watch. Idle is
// whether the core knows that no leader can do anything.
func (r *Replica[S]) AwaitsLeader(idle bool, leave func(view uint64)) (oldest *pool.Item, works bool) {
	r.Suspect.At = 0
	if r.Leads() {
		r.Suspect.Heard(r.Now)
	}
	oldest = r.Pending.Oldest() // in a view that has not begun too, for what it refuses takes up room
	switch {
	case idle || !r.Member() || r.Fetching != 0:
		r.Suspect.Rest(r.Now)
	case !r.Active:
		r.Suspect.Rest(r.Now)
		if r.Suspect.BeginsLate(r.Now) {
			leave(r.InView + 1)
		}
		if !r.Active {
			r.Suspect.Await()
		}
	default:
		works = true
	}
	return oldest, works
}
