package bft

// How replicas help each other on.
const (
	// IdleResends is how much less often an idle replica tells its status.
	IdleResends = 8
	// Resent is for how many entries one answer to a status brings something.
	Resent = 16
	// Rationed is how many bytes of entries another replica is given, from one status to the next: one that has missed a
	// window of usual entries gets all of it.
	Rationed = 16 << 20
	// strangers is how many replicas outside of the group are answered in an epoch.
	strangers = 64
)

// Replies is when others' statuses were answered in an epoch. A zero Replies has answered none.
type Replies struct {
	epoch uint64
	at    map[ID]Time
}

// Due reports whether a replica is to be answered now, and takes it for answered: each again after half of the time between
// two statuses of one, and of those outside of the group only some.
func (r *Replies) Due(to ID, g Group, now, resend Time) bool {
	if r.epoch != g.Epoch {
		r.epoch, r.at = g.Epoch, nil // members that are removed since are to learn so
	}
	last, has := r.at[to]
	if has && now < last+resend/2 || !has && len(r.at) >= strangers && g.Index(to) < 0 {
		return false
	}
	if r.at == nil {
		r.at = map[ID]Time{}
	}
	r.at[to] = now
	return true
}

// Silence is for how long a replica that is well may not be heard: the longest time between two statuses, and as much again
// as there is between two of a busy one.
func Silence(resend Time) Time { return (IdleResends + 1) * resend }
