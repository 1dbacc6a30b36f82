// Package lies is what the replicas that break a protocol have in common, whatever the protocol.
package lies

import (
	"math/rand/v2"
	"reflect"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// remembered is how many messages a liar has at hand.
const remembered = 64

// Config is who lies.
type Config struct {
	ID     bft.ID
	Domain string
	Group  bft.Group // of the first epoch; lies are told to all that were ever heard of
	Window uint64
	// Every gives it all habits.
	Every bool
	// Told hears of each lie that leaves; nil: nobody asks.
	Told func(Habit)
}

// Habit is a way to lie, by its name.
type Habit string

// Liar has some habits, drawn at random, and remembers what it has said and heard.
type Liar struct {
	Config
	Oracle bft.Oracle
	Rng    *rand.Rand
	Heard  []bft.Message // the last ones, its own too
	Peers  []bft.ID
	habits map[Habit]bool
}

// New makes a liar of a protocol that knows these habits.
func New(rng *rand.Rand, cfg Config, oracle bft.Oracle, habits []Habit) Liar {
	l := Liar{Config: cfg, Oracle: oracle, Rng: rng, habits: map[Habit]bool{}}
	for _, id := range cfg.Group.Members {
		if id != cfg.ID {
			l.Peers = append(l.Peers, id)
		}
	}
	for _, h := range habits {
		l.habits[h] = cfg.Every || rng.IntN(3) == 0
	}
	return l
}

// Has reports whether it has a habit.
func (l *Liar) Has(h Habit) bool { return l.habits[h] }

// Some reports that one time in so many, where it has the habit.
func (l *Liar) Some(h Habit, one int) bool { return l.habits[h] && l.Rng.IntN(one) == 0 }

// Tells is what it says by a habit, if that is anything.
func (l *Liar) Tells(h Habit, said ...bft.Outgoing) []bft.Outgoing {
	if len(said) > 0 && l.Told != nil {
		l.Told(h)
	}
	return said
}

// Instead puts a message in the place of another one. It is a lie where the two differ.
func (l *Liar) Instead(h Habit, out *bft.Outgoing, m bft.Message) {
	if !reflect.DeepEqual(out.Message, m) {
		l.Tells(h, *out)
	}
	out.Message = m
}

// Withholds reports whether it keeps a message to itself.
func (l *Liar) Withholds(h Habit, out bft.Outgoing) bool {
	if !l.Some(h, 3) {
		return false
	}
	l.Tells(h, out)
	return true
}

// Remember keeps a message in place of any other.
func (l *Liar) Remember(m bft.Message) {
	if len(l.Heard) < remembered {
		l.Heard = append(l.Heard, m)
	} else {
		l.Heard[l.Rng.IntN(remembered)] = m
	}
}

// Remembered is any message of a type, or none.
func Remembered[M bft.Message](l *Liar) (found M, ok bool) {
	for _, m := range l.Heard {
		if found, ok = m.(M); ok && l.Rng.IntN(2) == 0 {
			return found, true
		}
	}
	return found, false
}

// Repeat says again what it remembers, to anyone.
func (l *Liar) Repeat(times int) (said []bft.Outgoing) {
	for range times {
		said = append(said, bft.Outgoing{To: l.Anyone(), Message: l.Heard[l.Rng.IntN(len(l.Heard))]})
	}
	return said
}

// Anyone is one of the others.
func (l *Liar) Anyone() bft.ID { return l.Peers[l.Rng.IntN(len(l.Peers))] }

// ToAll addresses a message to all others.
func (l *Liar) ToAll(m bft.Message) (out []bft.Outgoing) {
	for _, id := range l.Peers {
		out = append(out, bft.Outgoing{To: id, Message: m})
	}
	return out
}
