package base

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// Stable is a checkpoint and the proof that it is stable: a quorum holds its state durably.
type Stable interface {
	// Point is the checkpoint.
	Point() bft.Checkpoint
}

// Progress is how far a replica has come in its epoch. Each number is a sequence number.
type Progress[S Stable] struct {
	Start S   // that the epoch began with
	Ends  []S // of the epochs before, by epoch

	Last      uint64 // the highest that the replica has accepted
	Applied   uint64 // up to it all is handed to the state machine
	Here      uint64 // the state is durable up to there
	Foreseen  uint64 // up to there nobody waits for what is decided, where the ledger has not followed
	Closed    bool   // the entry at Applied is a configuration, whose checkpoint is not stable yet
	Stable    S      // the newest
	Forgotten uint64 // entries up to it are forgotten

	Fetching uint64   // the stable checkpoint whose state is being fetched; 0: none
	Behind   bft.Time // when to fetch what is stable and not applied; 0: it is applied

	First  []bft.Record // that the first step persists
	Resync bool         // the first step asks for the state at Applied again
}

// Floor is the sequence number above which a replica keeps what it knows of entries.
func (p *Progress[S]) Floor() uint64 {
	if p.Fetching != 0 {
		return p.Fetching
	}
	return min(p.Applied, p.Stable.Point().Seq)
}

// Configured reports whether the configuration that opens the epoch is in force here.
func (p *Progress[S]) Configured() bool { return p.Here >= p.Start.Point().Seq }

// Ended reports whether the end of the epoch is stable and applied, so that the next one begins.
func (r *Replica[S]) Ended() bool {
	end := r.Stable.Point()
	return r.Closed && end.Seq == r.Applied && end.Ends() && end.Epoch == r.Group.Epoch
}

// Outruns reports whether the ledger has a window's entries still to write: a disk that is slower than the others' would have
// them queue up without end. The replica fetches later what the others have ordered meanwhile.
func (p *Progress[S]) Outruns(window uint64) bool { return p.Applied >= p.Here+window }

// UnderWay is the entry that is to be decided or applied next, where it is accepted; 0: it is not.
func (p *Progress[S]) UnderWay() uint64 {
	if done := max(p.Applied, p.Foreseen); p.Last > done {
		return done + 1
	}
	return 0
}

// Boundary reports whether a checkpoint is due after the entry. The last entry of a full window is one, so that the window
// always moves on, even where replicas have crashed before they could vouch for the others.
func (p *Progress[S]) Boundary(seq, interval uint64) bool {
	return (seq-p.Start.Point().Seq)%interval == 0
}

// Lags reports whether the stable checkpoint is so far ahead that nobody sends the entries again. The state there is then to
// be fetched at once, so that what is kept here stays bounded.
func (p *Progress[S]) Lags(window uint64) bool {
	return p.Stable.Point().Seq > max(p.Applied, p.Fetching)+window
}

// FetchLater has the state at the stable checkpoint fetched after a while if it is not applied by then: most often the
// entries are under way.
func (r *Replica[S]) FetchLater(while bft.Time) {
	if r.Fetching == 0 && r.Applied < r.Stable.Point().Seq && r.Behind == 0 {
		r.Behind = r.Now + while
	}
}

// Durable notes a state that is durable. It returns what this replica is to say of it, and reports whether that is still to
// be said: the checkpoint is of this epoch and not stable yet.
func (r *Replica[S]) Durable(in bft.Synced) (cp bft.Checkpoint, fresh bool) {
	cp = bft.Checkpoint{Epoch: r.Group.Epoch, Seq: in.Seq, State: in.State, Next: r.Group}
	if r.Closed && in.Seq == r.Applied {
		cp.Next = bft.Group{Epoch: in.Seq, Members: in.Members}
	}
	waited := !r.Configured()
	if r.Here = max(r.Here, in.Seq); waited {
		r.Recheck()
	}
	if in.Seq <= r.Start.Point().Seq || in.Seq > r.Applied {
		return cp, false // of an epoch before
	}
	stable := r.Stable.Point()
	if in.Seq == stable.Seq && !cp.Equal(stable) {
		r.Fault("the state after entry %d is %s, a quorum has %s", in.Seq, cp.State, stable.State)
	}
	return cp, in.Seq > stable.Seq
}

// Resume is for a replica that has replayed its records. It has what is stable and not applied fetched at once. Where the
// replica owes the others its word on the state at Applied, the first step asks for that state again. Vouched is whether it
// has given its word.
func (r *Replica[S]) Resume(vouched bool, interval uint64) {
	stable := r.Stable.Point().Seq
	if r.Applied < stable {
		r.Behind = 1 // a time that has passed at the first step
	}
	r.Resync = !vouched && r.Applied > stable && (r.Closed || r.Boundary(r.Applied, interval))
}

// Recheck takes over the limits of the epoch's configuration, and gives up what it does not allow, as it comes up, once the
// configuration is in force here. The others would refuse a leader who proposes anything else. What this replica has refused
// under the configuration before, and this one allows, comes again at its status, which is due at once.
func (r *Replica[S]) Recheck() {
	if r.Configured() {
		r.StatusAt = r.Now
		now := r.Renew()
		r.Pending.Limit(now.BatchTxs, now.BatchBytes)
		r.Suspect.First, r.Suspect.Most = now.Timeout, now.MaxTimeout
		r.Pending.Recheck()
	}
}

// Took takes over the state that was fetched. It reports whether that is the one that was asked for last. An older one is
// durable here too, its configuration is in force, and nobody waits for its transactions, while a newer one is still fetched.
func (r *Replica[S]) Took(in bft.Fetched) bool {
	if in.Seq > r.Fetching {
		return false
	}
	r.Pending.Drop(r.Oracle.Known)
	r.Pending.Forget(in.Past)
	r.Here = max(r.Here, in.Seq)
	r.Recheck()
	if in.Seq < r.Fetching {
		return false
	}
	r.Fetching, r.Applied, r.Closed = 0, in.Seq, false
	r.Suspect.Progress()
	return true
}

// Believable is what of others' checkpoints this replica lacks and can verify: of this epoch, then of those after it. Each but
// the last ends its epoch, so that nobody has more of them verified than there are epochs. Signed reports whether a quorum of
// a group has signed one.
func (r *Replica[S]) Believable(brought []S, signed func(bft.Group, S) bool) (fresh []S) {
	// Certificates of an epoch whose members' keys come with a configuration that is still to be fetched cannot be verified
	// yet: those before them count.
	stable := r.Stable.Point()
	g := r.Group
	if stable.Epoch == g.Epoch && stable.Ends() {
		g = stable.Next
	}
	for _, s := range brought {
		cp := s.Point()
		if cp.Epoch < g.Epoch || cp.Seq <= stable.Seq {
			continue
		}
		if cp.Epoch != g.Epoch || !g.Allows(cp) || !signed(g, s) {
			break
		}
		fresh = append(fresh, s)
		if !cp.Ends() {
			break
		}
		g = cp.Next
	}
	return fresh
}
