package sim

import (
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// node is a replica with its disk, its state machine and its clock.
type node struct {
	w    *world
	id   bft.ID
	liar Liar
	core bft.Core
	up   bool
	life int

	offset time.Duration // its clock's
	rate   float64

	disk    []bft.Record  // durable
	queue   []bft.Effects // that wait for the disk, oldest first
	writing int           // how many of them the disk is at
	ticking time.Duration // when the next tick is due; 0: none

	state    []bft.Digest // after each applied entry
	entries  []*bft.Entry
	txs      map[bft.Digest]uint64 // where each transaction was applied first
	coming   map[bft.Digest]bool   // transactions that the core has had applied, once the disk is done
	durable  int                   // entries that are durably applied
	members  []bft.ID
	configs  int // that have come into force
	fetching bool
	fetches  []bft.Fetch  // that wait for the one under way
	ahead    []*bft.Entry // executed after those of state
}

// clock is the node's own time.
func (n *node) clock() bft.Time { return n.offset + time.Duration(float64(n.w.now)*n.rate) }

// start makes a core of what the disk has.
func (n *node) start() {
	n.up = true
	n.life++
	n.queue, n.writing, n.ticking, n.fetching, n.fetches, n.ahead = nil, 0, 0, false, nil, nil
	state := bft.State{Applied: uint64(len(n.state))}
	if last := len(n.entries); last > 0 {
		state.Closed = n.entries[last-1].Config
	}
	n.core = n.w.protocol.New(n.id, n.w.group, oracle{n}, state, n.disk)
	n.step(bft.Tick{})
	if n.liar != nil {
		n.scheme()
	}
}

// crash loses what was not durable. The disk may have got to some of what it was not done with.
func (n *node) crash() {
	w := n.w
	n.up = false
	n.life++
	var unsynced []bft.Record
	for _, e := range n.queue {
		unsynced = append(unsynced, e.Persist...)
	}
	if len(unsynced) > 0 {
		unsynced = unsynced[:w.rng.IntN(len(unsynced)+1)]
	}
	n.disk = append(n.disk, unsynced...)
	kept := n.durable + w.rng.IntN(len(n.state)-n.durable+1)
	w.note("%d crashes with %d of %d entries", n.id, kept, len(n.state))
	n.rollBack(kept)
}

func (n *node) rollBack(kept int) {
	n.state, n.entries = n.state[:kept:kept], n.entries[:kept:kept]
	n.durable = kept
	n.txs, n.coming = map[bft.Digest]uint64{}, map[bft.Digest]bool{}
	n.members, n.configs = n.w.group.Members, 0
	for i, e := range n.entries {
		n.index(uint64(i)+1, e)
	}
}

func (n *node) index(seq uint64, e *bft.Entry) {
	for _, tx := range e.Txs {
		if d := bft.TxDigest(tx); n.txs[d] == 0 {
			n.txs[d] = seq
		}
	}
	if e.Config && n.w.holds(e.Txs[0], n.configs) {
		n.members = membersOf(e.Txs[0], n.members)
		n.configs++
	}
}

func (n *node) receive(from bft.ID, m bft.Message) {
	if n.liar != nil {
		n.transmit(n.liar.Hears(from, m))
	}
	n.step(bft.Received{From: from, Message: m})
}

// step steps the core. What follows waits for the disk.
func (n *node) step(in bft.Input) {
	w := n.w
	if !n.up || w.err != nil {
		return
	}
	w.steps++
	effects := n.core.Step(n.clock(), in)
	if effects.Fault != nil && n.liar == nil {
		w.fail("%d stops: %s", n.id, effects.Fault)
		return
	}
	for _, o := range effects.Apply {
		if o.Entry != nil {
			for _, id := range o.Entry.IDs() {
				n.coming[id] = true
			}
		}
	}
	if w.steps%64 == 0 && n.liar == nil {
		n.checkBounds()
	}
	n.arm(effects.Deadline)
	n.say(effects.AtOnce)
	if len(effects.Persist) == 0 && len(n.queue) == 0 {
		n.release(effects)
		return
	}
	n.queue = append(n.queue, effects)
	n.write()
}

func (n *node) checkBounds() {
	v := n.core.View()
	if v.Held > n.w.protocol.HeldAtMost {
		n.w.fail("%d keeps %d sequence numbers, at most %d are allowed", n.id, v.Held, n.w.protocol.HeldAtMost)
	}
	if most := len(n.w.nodes) * n.w.protocol.PendingOfEach; v.Pending > most {
		n.w.fail("%d keeps %d transactions, at most %d are allowed", n.id, v.Pending, most)
	}
}

// write has the disk take all that waits at once.
func (n *node) write() {
	if n.writing > 0 || len(n.queue) == 0 {
		return
	}
	n.writing = len(n.queue)
	n.w.at(n.w.now+n.w.plan.disk(n.w.rng), event{node: n, do: func() {
		done := n.queue[:n.writing:n.writing]
		n.queue, n.writing = n.queue[n.writing:], 0
		life := n.life
		for _, e := range done {
			n.disk = append(n.disk, e.Persist...)
		}
		for _, e := range done {
			if n.life == life {
				n.release(e)
			}
		}
		if len(n.disk) > 256 && len(n.queue) == 0 && n.w.rng.IntN(4) == 0 {
			n.disk = n.core.Records()
		}
		n.write()
	}})
}

func (n *node) arm(deadline bft.Time) {
	if deadline == 0 {
		return
	}
	at := max(n.w.now+1, time.Duration(float64(deadline-n.offset)/n.rate)+1)
	if n.ticking > n.w.now && n.ticking <= at {
		return
	}
	n.ticking = at
	n.w.at(at, event{node: n, do: func() {
		if n.ticking == n.w.now {
			n.ticking = 0
		}
		n.step(bft.Tick{})
	}})
}

// release lets effects happen whose records are durable.
func (n *node) release(e bft.Effects) {
	n.runAhead(&e)
	for _, o := range e.Apply {
		n.apply(o)
	}
	for _, a := range e.Answer {
		n.answer(a)
	}
	n.say(e.Send)
	if e.Fetch != nil {
		n.w.at(n.w.now, event{node: n, do: func() { n.step(bft.Logged{Seq: e.Fetch.Certificate.Seq}) }})
		n.fetch(*e.Fetch)
	}
}

// say sends what the core would, or what a liar makes of it.
func (n *node) say(said []bft.Outgoing) {
	for _, out := range said {
		if n.liar != nil {
			n.transmit(n.liar.Says(out))
		} else {
			n.w.send(n, out)
		}
	}
}

func (n *node) transmit(out []bft.Outgoing) {
	for _, o := range out {
		n.w.send(n, o)
	}
}

func (n *node) scheme() {
	n.transmit(n.liar.Schemes())
	n.w.at(n.w.now+time.Duration(n.w.rng.Int64N(int64(2*time.Second))), event{node: n, do: n.scheme})
}

func (n *node) apply(o bft.Ordered) {
	w := n.w
	if o.Entry != nil {
		if o.Seq != uint64(len(n.state))+1 {
			w.fail("%d applies entry %d after %d", n.id, o.Seq, len(n.state))
			return
		}
		n.becomesLast(o)
		n.add(o.Entry)
		if n.liar == nil {
			w.applied(n, o.Seq, o.Entry, n.state[o.Seq-1])
		}
		if o.Entry.Config {
			w.crashAtEnd(n)
		}
	}
	if !o.Sync || o.Seq == 0 || o.Seq > uint64(len(n.state)) {
		return
	}
	synced := bft.Synced{Seq: o.Seq, State: n.state[o.Seq-1], Members: n.members}
	w.at(w.now+w.plan.disk(w.rng), event{node: n, do: func() {
		n.durable = max(n.durable, int(o.Seq))
		n.step(synced)
	}})
}

func (n *node) add(e *bft.Entry) {
	var before bft.Digest
	if len(n.state) > 0 {
		before = n.state[len(n.state)-1]
	}
	d := e.Digest()
	n.state = append(n.state, sha256.Sum256(append(before[:], d[:]...)))
	n.entries = append(n.entries, e)
	n.index(uint64(len(n.state)), e)
}

// fetch takes over the state of another replica that has it, once an earlier fetch has ended.
func (n *node) fetch(f bft.Fetch) {
	if n.fetching {
		n.fetches = append(n.fetches, f)
		return
	}
	n.fetching = true
	n.tryFetch(f)
}

// tryFetch asks one after another of those who have signed until one serves. That takes longer where many entries are missing.
func (n *node) tryFetch(f bft.Fetch) {
	w := n.w
	others := slices.DeleteFunc(slices.Clone(f.Certificate.Signatures), func(s bft.Signature) bool { return s.By == n.id })
	w.at(w.now+w.plan.delay(w.rng)*4, event{node: n, do: func() {
		other := w.nodes[others[w.rng.IntN(len(others))].By-1]
		if !other.serves(n, f) {
			n.tryFetch(f)
			return
		}
		lacks := max(0, int(f.Certificate.Seq)-len(n.state))
		w.at(w.now+time.Duration(lacks)*w.plan.perEntry, event{node: n, do: func() {
			if other.serves(n, f) {
				n.fetched(f.Certificate.Seq, other)
			} else {
				n.tryFetch(f)
			}
		}})
	}})
}

// serves reports whether another replica can fetch the state of this one. A liar's is not what the certificate says.
func (n *node) serves(to *node, f bft.Fetch) bool {
	seq := f.Certificate.Seq
	return n.up && n.liar == nil && uint64(len(n.state)) >= seq && n.state[seq-1] == f.Certificate.State &&
		!n.w.plan.cut(n.w.now, n.id, to.id)
}

// fetched takes over the other's entries, and begins the next fetch that waits.
func (n *node) fetched(seq uint64, other *node) {
	n.w.note("%d fetches up to %d", n.id, seq)
	for i := uint64(len(n.state)); i < seq; i++ {
		n.add(other.entries[i])
		if n.liar == nil {
			n.w.applied(n, i+1, other.entries[i], n.state[i])
		}
	}
	n.fetching, n.durable = false, len(n.state)
	if waiting := n.fetches; len(waiting) > 0 {
		n.fetches = waiting[1:]
		n.fetch(waiting[0])
	}
	n.step(bft.Fetched{Seq: seq})
}

// send puts a message on its link.
func (w *world) send(from *node, out bft.Outgoing) {
	if out.To >= firstClient {
		w.toClient(from, out)
		return
	}
	if w.heard != nil {
		w.heard(from, out.Message)
	}
	if out.To == from.id || int(out.To) > len(w.nodes) || out.To == 0 {
		return
	}
	p := &w.plan
	if p.cut(w.now, from.id, out.To) || w.now < p.heal && w.rng.Float64() < p.loss {
		return
	}
	copies := 1
	if w.now < p.heal && w.rng.Float64() < p.repeat {
		copies = 2
	}
	to := w.nodes[out.To-1]
	for range copies {
		w.at(w.now+p.delay(w.rng), event{node: nil, do: func() {
			if to.up {
				if w.trace != nil {
					w.note("%d -> %d %s %s", from.id, to.id, out.Message.Kind(), spell(out.Message))
				}
				to.receive(from.id, out.Message)
			}
		}})
	}
}

// randomReplica is one that a client may turn to.
func (w *world) randomReplica(rng *rand.Rand) *node {
	for range 16 {
		if n := w.nodes[w.members[rng.IntN(len(w.members))]-1]; n.up {
			return n
		}
	}
	return nil
}
