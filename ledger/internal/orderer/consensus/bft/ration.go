package bft

// Ration is how much of what this replica keeps it gives each other one that asks or lacks it: one who asks without end would have
// it fill its memory and its connections with answers. A zero Ration gives nothing.
type Ration struct {
	Every Time // how long Bytes are for
	Bytes int
	of    map[ID]share
}

// share is what is left for one replica of the time that began then.
type share struct {
	began Time
	left  int
}

// answerBytes is what an answer takes of a ration beside the bytes asked for.
const answerBytes = 256

// Take reports whether a replica may have so many bytes now. The last that it gets may be more than what was left.
func (r *Ration) Take(to ID, now Time, bytes int) bool {
	s, has := r.of[to]
	if !has || now >= s.began+r.Every {
		s = share{now, r.Bytes}
	}
	if s.left <= 0 {
		return false
	}
	s.left -= bytes + answerBytes
	if r.of == nil {
		r.of = map[ID]share{}
	}
	r.of[to] = s
	return true
}
