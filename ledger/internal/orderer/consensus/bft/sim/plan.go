package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// plan is a schedule of faults.
type plan struct {
	heal     time.Duration // no faults but the liars' after it
	loss     float64       // of messages
	repeat   float64       // messages that arrive twice
	near     time.Duration // that a message takes at least
	far      time.Duration // that it may take beyond that
	slowDisk time.Duration // that a sync may take
	cuts     []cut
	liars    []bft.ID
	groups   [][]bft.ID    // memberships one after the other
	ends     bool          // replicas crash where an epoch ends
	rivals   bool          // configurations make others, and transactions that wait, invalid
	marks    bool          // some transactions are marks
	perEntry time.Duration // that a fetched entry takes beyond the way of messages
}

// cut separates the replicas of a side from all others for a while.
type cut struct {
	from, to time.Duration
	side     []bft.ID
}

func (p *plan) cut(now time.Duration, a, b bft.ID) bool {
	if now >= p.heal {
		return false
	}
	for _, c := range p.cuts {
		if now >= c.from && now < c.to && slices.Contains(c.side, a) != slices.Contains(c.side, b) {
			return true
		}
	}
	return false
}

func (p *plan) delay(rng *rand.Rand) time.Duration {
	return p.near + time.Duration(rng.Int64N(int64(p.far)))
}

func (p *plan) disk(rng *rand.Rand) time.Duration {
	return time.Millisecond + time.Duration(rng.Int64N(int64(p.slowDisk)))
}

func sometimes(rng *rand.Rand, one int) bool { return rng.IntN(one) == 0 }

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// newPlan draws a schedule.
func newPlan(rng *rand.Rand, o Options) plan {
	liars, ends := o.Liars, o.Ends
	p := plan{
		heal: 3*time.Second + upTo(rng, 9*time.Second), near: time.Millisecond, far: 5 * time.Millisecond, slowDisk: 3 * time.Millisecond,
		rivals: o.Rivals, marks: o.Marks,
	}
	if sometimes(rng, 2) {
		p.loss = rng.Float64() * 0.2
	}
	if sometimes(rng, 2) {
		p.repeat = rng.Float64() * 0.2
	}
	if sometimes(rng, 3) {
		p.far = time.Duration(1+rng.IntN(200)) * time.Millisecond
	}
	if sometimes(rng, 4) {
		p.slowDisk = time.Duration(1+rng.IntN(100)) * time.Millisecond
	}
	p.groups = [][]bft.ID{members([]int{4, 4, 4, 4, 5, 6, 7, 1, 3}[rng.IntN(9)])}
	if p.ends = ends; ends && len(p.groups[0]) < 4 {
		p.groups[0] = members(7)
	}
	if ends || sometimes(rng, 4) {
		p.drawGroups(rng)
	}
	faulty := len(p.groups[0])
	for _, g := range p.groups {
		faulty = min(faulty, bft.Group{Members: g}.Faulty())
	}
	first := p.groups[0]
	if liars && sometimes(rng, 2) {
		for len(p.liars) < faulty {
			if id := first[rng.IntN(len(first))]; !slices.Contains(p.liars, id) {
				p.liars = append(p.liars, id)
			}
		}
	}
	for range rng.IntN(3) {
		from := upTo(rng, p.heal)
		c := cut{from: from, to: from + upTo(rng, p.heal-from)}
		for _, id := range first {
			if sometimes(rng, 2) {
				c.side = append(c.side, id)
			}
		}
		p.cuts = append(p.cuts, c)
	}
	if ends {
		p.cutEnds(rng)
	}
	if sometimes(rng, 4) {
		p.perEntry = upTo(rng, 200*time.Millisecond)
	}
	return p
}

// cutEnds separates some replicas from the others for a moment while an epoch ends.
func (p *plan) cutEnds(rng *rand.Rand) {
	for i := range p.groups[1:] {
		if sometimes(rng, 2) {
			continue
		}
		from := p.configAt(i) + upTo(rng, 500*time.Millisecond)
		c := cut{from: from, to: from + upTo(rng, 2*time.Second)}
		for _, id := range p.groups[i] {
			if sometimes(rng, 2) {
				c.side = append(c.side, id)
			}
		}
		p.cuts = append(p.cuts, c)
	}
}

// configAt is when a client asks for the next membership.
func (p *plan) configAt(i int) time.Duration {
	return p.heal * time.Duration(i+1) / time.Duration(len(p.groups))
}

// crashAtEnd has a replica that has come to the end of an epoch crash, and be back a moment later.
func (w *world) crashAtEnd(n *node) {
	if !w.plan.ends || sometimes(w.rng, 2) {
		return
	}
	at := w.now + upTo(w.rng, 300*time.Millisecond)
	if at >= w.plan.heal {
		return
	}
	w.at(at, event{node: n, do: func() {
		n.crash()
		w.at(min(at+upTo(w.rng, time.Second), w.plan.heal), event{do: func() {
			if !n.up {
				w.note("%d is back", n.id)
				n.start()
			}
		}})
	}})
}

// drawGroups adds memberships, each with one replica more or fewer, or some others. Who comes has an id that nobody had.
func (p *plan) drawGroups(rng *rand.Rand) {
	if len(p.groups[0]) < 4 {
		return
	}
	free := bft.ID(0)
	for range 1 + rng.IntN(3) {
		next := slices.Clone(p.groups[len(p.groups)-1])
		free = max(free, next[len(next)-1]+1)
		switch rng.IntN(4) {
		case 0:
			if len(next) > 4 {
				at := rng.IntN(len(next))
				next = slices.Delete(next, at, at+1)
			}
		case 1: // one comes for another
			at := rng.IntN(len(next))
			next = append(slices.Delete(next, at, at+1), free)
		case 2:
			next = append(next, free)
		case 3:
			next = append(next, free, free+1)
		}
		p.groups = append(p.groups, next)
	}
}

func members(n int) (ids []bft.ID) {
	for id := range n {
		ids = append(ids, bft.ID(id)+1)
	}
	return ids
}

// joins starts those that a configuration has added.
func (p *plan) joins(w *world, members []bft.ID) {
	for _, id := range members {
		if n := w.nodes[id-1]; n.core == nil {
			w.at(w.now+upTo(w.rng, 2*time.Second), event{do: func() {
				if n.core == nil {
					n.start()
				}
			}})
		}
	}
}

// arrange puts the plan's crashes and clients among the events.
func (w *world) arrange() {
	p, rng := &w.plan, w.rng
	for range rng.IntN(5) {
		n := w.nodes[rng.IntN(len(p.groups[0]))]
		at := upTo(rng, p.heal)
		back := min(at+upTo(rng, 4*time.Second), p.heal)
		w.at(at, event{do: func() {
			if n.up {
				n.crash()
				w.at(back, event{do: func() {
					if !n.up {
						w.note("%d is back", n.id)
						n.start()
					}
				}})
			}
		}})
	}
	if sometimes(rng, 16) { // a power cut
		w.at(upTo(rng, p.heal), event{do: w.powerCut})
	}
	for i := range 10 + rng.IntN(30) {
		name := "tx"
		if p.marks && i%4 == 3 {
			name = "|"
		}
		w.client(upTo(rng, p.heal), fmt.Append(nil, name, i))
	}
	for i, g := range p.groups[1:] {
		w.client(p.configAt(i), configOf(i, g))
		if p.rivals {
			w.client(p.configAt(i)+upTo(rng, 200*time.Millisecond), rivalOf(i, g))
			for k := range 1 + rng.IntN(4) {
				w.client(p.configAt(i)+upTo(rng, 200*time.Millisecond), outdatedBy(10*i+k, i+1))
			}
		}
	}
}

func (w *world) powerCut() {
	for _, n := range w.nodes {
		if n.up {
			n.crash()
			w.at(w.now+upTo(w.rng, time.Second), event{do: func() {
				if !n.up {
					n.start()
				}
			}})
		}
	}
}

// client submits a transaction, and does so again, to whomever, until it is ordered.
func (w *world) client(at time.Duration, tx []byte) {
	c := &client{tx: tx, digest: bft.TxDigest(tx), id: firstClient + bft.ID(len(w.clients))}
	w.clients = append(w.clients, c)
	if w.protocol.Client != nil {
		w.begin(at, c)
		return
	}
	var try func()
	try = func() {
		if c.done || w.outdated(c) {
			return
		}
		w.submitted[c.digest] = c
		if n := w.randomReplica(w.rng); n != nil {
			w.note("%q to %d", tx, n.id)
			n.step(bft.Submit{Tx: tx})
		}
		w.at(w.now+time.Second+upTo(w.rng, 2*time.Second), event{do: try})
	}
	w.at(at, event{do: try})
}
