package base

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// BeginStep begins a step. Time never goes back.
func (r *Replica[S]) BeginStep(now bft.Time) {
	r.Now, r.Out = max(now, r.Now), bft.Effects{}
	for _, record := range r.First {
		r.Persist(record)
	}
	r.First = nil
	if r.Resync {
		r.Resync = false
		r.Out.Apply = append(r.Out.Apply, bft.Ordered{Seq: r.Applied, Sync: true})
	}
}

// EndStep ends a step, and returns what it has made. The next step is due at the earliest of the core's own times (0: none) and
// those of this package's.
func (r *Replica[S]) EndStep(times ...bft.Time) bft.Effects {
	r.Out.Refused = append(r.Out.Refused, r.Pending.Refused()...)
	at := r.StatusAt
	if r.Suspect.At != 0 {
		at = min(at, r.Suspect.At)
	}
	if r.Behind != 0 {
		at = min(at, r.Behind)
	}
	for _, t := range times {
		if t != 0 {
			at = min(at, t)
		}
	}
	if relay := r.Pending.RelayAt(); relay != 0 && r.Member() {
		at = min(at, relay)
	}
	r.Out.Deadline = max(at, r.Now+1)
	return r.Out
}

// Tasks is what a core does once its time has come, and when that is.
type Tasks struct {
	Busy   func() bool // whether messages of others would bring what the replica waits for
	Fetch  func()      // has the state at the stable checkpoint fetched
	Tell   func()      // tells the replica's status, and sets StatusAt anew
	Relay  bft.Time    // that transactions wait which one relay leaves for the next
	Resend bft.Time    // between two statuses of a busy replica
}

// RunDue does what is due: it has the stable state fetched, relays what the leader takes long for, and tells the status.
func (r *Replica[S]) RunDue(t Tasks) {
	if r.Behind != 0 && r.Now >= r.Behind {
		t.Fetch()
	}
	if r.Member() {
		r.Relay(t.Relay)
	}
	if at := r.Now + t.Resend; r.StatusAt > at && t.Busy() {
		r.StatusAt = at
	}
	if r.Now >= r.StatusAt {
		t.Tell()
	}
}

// ViewOf is where the replica stands. Held is how many sequence numbers it keeps votes or entries of.
func (r *Replica[S]) ViewOf(held int) bft.View {
	return bft.View{
		Group: r.Group, View: r.InView, Leader: r.Leader(), Active: r.Active, Fetching: r.Fetching != 0, Applied: r.Applied,
		Stable: r.Stable.Point().Seq, Last: r.Last, Held: held, Pending: r.Pending.Len(), Suspicions: r.Suspicions, Asked: r.AskedAt,
	}
}
