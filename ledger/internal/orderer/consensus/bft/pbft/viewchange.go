package pbft

import (
	"bytes"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// watch does what time alone asks for.
func (c *Core) watch() {
	c.watchLeader()
	if c.behind != 0 && c.now >= c.behind {
		c.fetch()
	}
	if c.member() {
		c.relay()
	}
	if at := c.now + c.cfg.Resend; c.statusAt > at && c.busy() {
		c.statusAt = at
	}
	if c.now >= c.statusAt {
		if c.progresses() && c.busy() {
			c.statusAt = c.now + c.cfg.Resend
		} else {
			c.sendStatus()
		}
	}
}

func (c *Core) watchLeader() {
	c.suspect.At = 0
	if c.leads() {
		c.suspect.Heard(c.now)
	}
	oldest := c.pending.Oldest() // in a view that has not begun too, for what it refuses takes up room
	switch {
	case !c.member() || c.fetching != 0:
		c.suspect.Rest(c.now)
	case !c.active:
		c.suspect.Rest(c.now)
		if c.suspect.BeginsLate(c.now) {
			c.leave(c.view + 1)
		}
		if !c.active {
			c.suspect.Await()
		}
	case c.closed:
		// Replicas that lack an entry of this epoch may need a view in which it is voted for again: who has applied it, and was
		// restarted since, no longer has the votes that decided it.
		if c.suspect.Look(c.now, nil, c.applied, c.remind) && c.suspect.Late(c.now) {
			c.leave(c.view + 1)
		}
	case c.suspect.Look(c.now, oldest, c.underWay(), c.remind) && c.suspect.Late(c.now):
		c.leave(c.view + 1)
	}
}

// underWay is the entry that is to be decided or applied next, where it is accepted; 0: it is not.
func (c *Core) underWay() uint64 {
	if done := max(c.applied, c.foreseen); c.last > done {
		return done + 1
	}
	return 0
}

// remind brings the leader a transaction that it should have.
func (c *Core) remind(tx []byte) {
	c.send(c.group.Leader(c.view), &bft.Request{Txs: [][]byte{tx}})
}

// leave gives up all views before this one.
func (c *Core) leave(view uint64) {
	c.suspicions++
	c.suspect.GaveUp()
	c.turn(view)
	c.persist(&ViewRecord{Epoch: c.group.Epoch, View: view})
	own := c.viewChange()
	c.keep(c.group.Index(c.cfg.ID), own, proven)
	c.broadcast(own)
	c.countChanges()
}

// turn forgets what belongs to the view before. Where this replica has left for the view already, votes for it have come:
// they overtake its beginning.
func (c *Core) turn(view uint64) {
	later := view != c.view
	c.view, c.active, c.newView, c.closing, c.base = view, false, nil, 0, 0
	c.suspect.Turn()
	c.pacer.Forget()
	c.beginSparing(c.applied) // the leader before could have entries take long
	for seq := c.floor() + 1; seq <= c.stable.Seq+c.cfg.Window; seq++ {
		if s := c.slots[seq]; s != nil {
			if s.accepted && s.entry != nil {
				s.left, s.leftAs = s.entry, s.digest
			}
			if later || s.unvoted { // a spare has not verified the votes
				clear(s.prepares)
			}
			s.accepted, s.unvoted, s.entry, s.fetched = false, false, nil, nil
		}
	}
	c.pending.Reshelve()
}

// viewChange is what this replica holds prepared.
func (c *Core) viewChange() *ViewChange {
	m := &ViewChange{Epoch: c.group.Epoch, View: c.view, Stable: c.stable, Replica: c.cfg.ID}
	for seq := c.stable.Seq + 1; seq <= c.stable.Seq+c.cfg.Window; seq++ {
		if s := c.slots[seq]; s != nil && s.prepared != nil {
			m.Prepared = append(m.Prepared, *s.prepared)
		}
	}
	m.Signature = c.oracle.Sign(m.Statement(c.cfg.Domain))
	return m
}

func (c *Core) onViewChange(m *ViewChange) {
	at := c.group.Index(m.Replica)
	if m.Epoch != c.group.Epoch || at < 0 || !c.member() {
		return
	}
	if m.View < c.view || m.View == c.view && c.active {
		return
	}
	if old := c.changes[at]; old != nil && m.View <= old.View {
		return
	}
	if !c.signedChange(m) {
		return
	}
	c.keep(at, m, unproven)
	c.adopt(m.Stable)
	if m.Epoch != c.group.Epoch {
		return
	}
	c.join()
	c.countChanges()
}

// join follows f+1 replicas to the lowest view that they ask for: a correct one is among them.
func (c *Core) join() {
	later, lowest := 0, uint64(0)
	for _, m := range c.changes {
		if m == nil || m.View <= c.view {
			continue
		}
		if later++; lowest == 0 || m.View < lowest {
			lowest = m.View
		}
	}
	if later >= c.group.Weak() {
		c.leave(lowest)
	}
}

// countChanges starts the wait for a new view once a quorum wants it, and leads that view where it is ours.
func (c *Core) countChanges() {
	if c.active {
		return
	}
	left := 0
	var usable []*ViewChange
	for at, m := range c.changes {
		if m == nil || m.View < c.view {
			continue
		}
		left++
		if m.View == c.view && c.group.Leader(c.view) == c.cfg.ID && c.provenChange(m) && c.hasBodies(at) {
			usable = append(usable, m)
		}
	}
	quorum := c.group.Quorum()
	if left >= quorum {
		c.suspect.Begin(c.now, false)
	}
	if len(usable) < quorum {
		return
	}
	m := &NewView{Epoch: c.group.Epoch, View: c.view, Changes: usable[:quorum]}
	m.Signature = c.oracle.Sign(m.Statement(c.cfg.Domain))
	c.broadcast(m)
	c.install(m)
}

// hasBodies reports whether the entries that a member's view change names are here; otherwise it asks for them, again only
// after a while: each that comes has the changes counted anew, and would have all others asked for. A new leader counts
// only such view changes, so that each entry it proposes can be had from it.
func (c *Core) hasBodies(at int) bool {
	m, all, asks := c.changes[at], true, c.now >= c.askAt[at]
	for _, p := range m.Prepared {
		s := c.slot(p.Seq)
		if s == nil { // below this replica's own floor: what a new view says of it is settled
			continue
		}
		if s.body(p.Digest) != nil {
			continue
		}
		all = false
		if asks {
			c.send(m.Replica, &bft.Want{Epoch: c.group.Epoch, Seq: p.Seq, Digest: p.Digest})
			c.askAt[at] = c.now + c.cfg.Resend/2 // before the next status, which counts too
		}
	}
	return all
}

// proof is what is known of what a view change holds prepared.
type proof int

const (
	unproven proof = iota
	proven
	refuted
)

// keep takes a member's latest view change.
func (c *Core) keep(at int, m *ViewChange, p proof) {
	c.changes[at], c.proofs[at], c.askAt[at] = m, p, 0
}

// kept reports whether a view change is the latest of its member's, at that place.
func (c *Core) kept(m *ViewChange) (at int, is bool) {
	if at = c.group.Index(m.Replica); at < 0 || c.changes[at] == nil {
		return at, false
	}
	own := c.changes[at]
	return at, own == m || bytes.Equal(own.Signature, m.Signature) && bytes.Equal(own.Statement(c.cfg.Domain), m.Statement(c.cfg.Domain))
}

// signedChange verifies whose view change it is, and the checkpoint that it names. A replica follows others by that alone:
// what one holds prepared takes hundreds of verifications, which a liar could ask for with a later view each time.
func (c *Core) signedChange(m *ViewChange) bool {
	if _, is := c.kept(m); is {
		return true
	}
	if !c.oracle.Verify(m.Replica, m.Statement(c.cfg.Domain), m.Signature) {
		return false
	}
	return c.provenStable(m.Stable)
}

// provenChange verifies what a view change holds prepared, once: a new view rests on it.
func (c *Core) provenChange(m *ViewChange) bool {
	at, is := c.kept(m)
	if !is {
		return c.provesPrepared(m)
	}
	if c.proofs[at] == unproven {
		c.proofs[at] = refuted
		if c.provesPrepared(m) {
			c.proofs[at] = proven
		}
	}
	return c.proofs[at] == proven
}

func (c *Core) provesPrepared(m *ViewChange) bool {
	before := m.Stable.Seq
	for i := range m.Prepared {
		p := &m.Prepared[i]
		if p.Seq <= before || p.Seq > m.Stable.Seq+c.cfg.Window || p.View >= m.View {
			return false
		}
		before = p.Seq
		if !c.signedBy(c.group, PrepareStatement(c.cfg.Domain, m.Epoch, p.View, p.Seq, p.Digest), p.Signatures) {
			return false
		}
	}
	return true
}

// provenStable verifies a certificate of this epoch, or the one that it began with.
func (c *Core) provenStable(cert bft.Certificate) bool {
	switch {
	case cert.Seq < c.start.Seq:
		return false
	case cert.Seq == c.start.Seq:
		return cert.State == c.start.State && cert.Next.Equal(c.start.Next)
	case cert.Same(c.stable):
		return true
	}
	return cert.Epoch == c.group.Epoch && c.group.Allows(cert.Checkpoint) &&
		c.signedBy(c.group, CheckpointStatement(c.cfg.Domain, cert.Checkpoint), cert.Signatures)
}
