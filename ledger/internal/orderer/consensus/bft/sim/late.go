package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Late is a schedule without other faults, in which the last of four replicas starts late, while the others go on ordering.
type Late struct {
	Entries int           // that the others have ordered when it starts
	Every   time.Duration // from one transaction to the next
	Fetch   time.Duration // that it takes to fetch one entry
	For     time.Duration // how long the others go on after it has started
	Config  int           // entries that the others have ordered since then when one has them order a configuration; 0: none has
	Dies    int           // entries that the others have ordered since then when the first leader dies, until the end; 0: it lives
	// Vote is the entry that a message is a vote for; 0: it is none.
	Vote func(bft.Message) (seq uint64)
}

// Caught is how the late replica fares.
type Caught struct {
	Ordered int           // entries since it has started
	Voted   int           // entries that it has voted for
	Up      time.Duration // from its start until it lacked no more than a few entries; 0: that never was
	Behind  int           // entries that it lacks at the end
	Without int           // entries that were ordered without the leader that has died, before the late replica was up
}

// few is how many entries a replica that is well lacks at most.
const few = 8

// lateness is one run of Late.
type lateness struct {
	Late
	Caught
	w       *world
	node    *node
	began   time.Duration // when it started; 0: it has not
	before  int           // entries that were ordered then
	voted   map[uint64]bool
	clients int
	asked   bool // for the configuration
	died    int  // entries that were ordered when the leader died; 0: it lives
}

// RunLate lets the schedule happen.
func RunLate(p Protocol, s Late) (Caught, error) {
	group := bft.Group{Members: members(4)}
	w := &world{
		protocol: p, rng: rand.New(rand.NewPCG(1, 0x53)), submitted: map[bft.Digest]*client{}, group: group, members: group.Members,
		plan: plan{heal: time.Hour, near: time.Millisecond, far: time.Millisecond, slowDisk: time.Millisecond, perEntry: s.Fetch},
	}
	for _, id := range w.members {
		n := &node{w: w, id: id, rate: 1, txs: map[bft.Digest]uint64{}, coming: map[bft.Digest]bool{}, members: w.members}
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes[:3] {
		w.at(1, event{node: n, do: n.start})
	}
	l := &lateness{Late: s, w: w, node: w.nodes[3], voted: map[uint64]bool{}}
	w.heard = l.hear
	w.at(s.Every, event{do: l.goOn})
	err := w.run()
	return l.Caught, err
}

func (l *lateness) hear(from *node, m bft.Message) {
	if seq := l.Vote(m); seq != 0 && from == l.node && !l.voted[seq] {
		l.voted[seq] = true
		l.Voted++
	}
}

// goOn submits a transaction, as often as the schedule says.
func (l *lateness) goOn() {
	w := l.w
	ordered := len(w.order)
	if l.began == 0 && ordered >= l.Entries {
		l.began, l.before = w.now, ordered
		l.node.start()
	}
	if l.began != 0 {
		l.Ordered, l.Behind = ordered-l.before, ordered-len(l.node.state)
		if l.Up == 0 && l.Behind <= few {
			l.Up = w.now - l.began
		}
		if l.died != 0 && l.Up == 0 {
			l.Without = ordered - l.died
		}
		if w.now >= l.began+l.For {
			w.plan.heal = w.now // nothing more is submitted
			if l.died != 0 {
				w.nodes[0].start()
			}
			return
		}
	}
	l.clients++
	w.client(w.now, fmt.Append(nil, "tx", l.clients))
	if l.Config != 0 && !l.asked && l.Ordered >= l.Config {
		l.asked = true
		w.client(w.now, configOf(0, w.members))
	}
	if l.Dies != 0 && l.died == 0 && l.Ordered >= l.Dies {
		l.died = ordered
		w.nodes[0].crash()
	}
	w.at(w.now+l.Every, event{do: l.goOn})
}
