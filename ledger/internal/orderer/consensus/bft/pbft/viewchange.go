package pbft

import (
	"bytes"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
)

// watch does what time alone asks for.
func (c *Core) watch() {
	c.watchLeader()
	c.RunDue(base.Tasks{Busy: c.busy, Fetch: c.fetch, Tell: c.tellStatus, Relay: c.cfg.Timeout / 2, Resend: c.cfg.Resend})
}

func (c *Core) watchLeader() {
	oldest, works := c.AwaitsLeader(false, c.leave)
	if !works {
		return
	}
	under := c.UnderWay()
	if c.Closed {
		// Replicas that lack an entry of this epoch may need a view in which it is voted for again: who has applied it, and was
		// restarted since, no longer has the votes that decided it.
		oldest, under = nil, c.Applied
	}
	if c.Suspect.Look(c.Now, oldest, under, c.Remind) && c.Suspect.Late(c.Now) {
		c.leave(c.InView + 1)
	}
}

// leave gives up all views before this one.
func (c *Core) leave(view uint64) {
	c.Suspicions++
	c.Suspect.GaveUp()
	c.turn(view)
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: view})
	own := c.viewChange()
	c.keep(c.Group.Index(c.ID), own, proven)
	c.Broadcast(own)
	c.countChanges()
}

// turn forgets what belongs to the view before. Where this replica has left for the view already, votes for it have come:
// they overtake its beginning.
func (c *Core) turn(view uint64) {
	later := view != c.InView
	c.InView, c.Active, c.newView, c.closing, c.base = view, false, nil, 0, 0
	c.Suspect.Turn()
	c.pacer.Forget()
	c.beginSparing(c.Applied) // the leader before could have entries take long
	for seq := c.Floor() + 1; seq <= c.Stable.Seq+c.cfg.Window; seq++ {
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
	c.Pending.Reshelve()
}

// viewChange is what this replica holds prepared.
func (c *Core) viewChange() *ViewChange {
	m := &ViewChange{Epoch: c.Group.Epoch, View: c.InView, Stable: c.Stable, Replica: c.ID}
	for seq := c.Stable.Seq + 1; seq <= c.Stable.Seq+c.cfg.Window; seq++ {
		if s := c.slots[seq]; s != nil && s.prepared != nil {
			m.Prepared = append(m.Prepared, *s.prepared)
		}
	}
	m.Signature = c.Oracle.Sign(m.Statement(c.cfg.Domain))
	return m
}

func (c *Core) onViewChange(m *ViewChange) {
	at := c.Group.Index(m.Replica)
	if m.Epoch != c.Group.Epoch || at < 0 || !c.Member() {
		return
	}
	if m.View < c.InView || m.View == c.InView && c.Active {
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
	if m.Epoch != c.Group.Epoch {
		return
	}
	c.join()
	c.countChanges()
}

// join follows f+1 replicas to the lowest view that they ask for: a correct one is among them.
func (c *Core) join() {
	later, lowest := 0, uint64(0)
	for _, m := range c.changes {
		if m == nil || m.View <= c.InView {
			continue
		}
		if later++; lowest == 0 || m.View < lowest {
			lowest = m.View
		}
	}
	if later >= c.Weak() {
		c.leave(lowest)
	}
}

// countChanges starts the wait for a new view once a quorum wants it, and leads that view where it is ours.
func (c *Core) countChanges() {
	if c.Active {
		return
	}
	left := 0
	var usable []*ViewChange
	for at, m := range c.changes {
		if m == nil || m.View < c.InView {
			continue
		}
		left++
		if m.View == c.InView && c.Leader() == c.ID && c.provenChange(m) && c.hasBodies(at) {
			usable = append(usable, m)
		}
	}
	quorum := c.Quorum()
	if left >= quorum {
		c.Suspect.Begin(c.Now, false)
	}
	if len(usable) < quorum {
		return
	}
	m := &NewView{Epoch: c.Group.Epoch, View: c.InView, Changes: usable[:quorum]}
	m.Signature = c.Oracle.Sign(m.Statement(c.cfg.Domain))
	c.Broadcast(m)
	c.install(m)
}

// hasBodies reports whether the entries that a member's view change names are here; otherwise it asks for them, again only
// after a while: each that comes has the changes counted anew, and would have all others asked for. A new leader counts
// only such view changes, so that each entry it proposes can be had from it.
func (c *Core) hasBodies(at int) bool {
	m, all, asks := c.changes[at], true, c.Now >= c.askAt[at]
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
			c.Send(m.Replica, &bft.Want{Epoch: c.Group.Epoch, Seq: p.Seq, Digest: p.Digest})
			c.askAt[at] = c.Now + c.cfg.Resend/2 // before the next status, which counts too
		}
	}
	return all
}

// verdict is what is known of what a view change holds prepared.
type verdict int

const (
	unproven verdict = iota
	proven
	refuted
)

// keep takes a member's latest view change.
func (c *Core) keep(at int, m *ViewChange, v verdict) {
	c.changes[at], c.verdicts[at], c.askAt[at] = m, v, 0
}

// kept reports whether a view change is the latest of its member's, at that place.
func (c *Core) kept(m *ViewChange) (at int, is bool) {
	if at = c.Group.Index(m.Replica); at < 0 || c.changes[at] == nil {
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
	if !c.Oracle.Verify(m.Replica, m.Statement(c.cfg.Domain), m.Signature) {
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
	if c.verdicts[at] == unproven {
		c.verdicts[at] = refuted
		if c.provesPrepared(m) {
			c.verdicts[at] = proven
		}
	}
	return c.verdicts[at] == proven
}

func (c *Core) provesPrepared(m *ViewChange) bool {
	before := m.Stable.Seq
	for i := range m.Prepared {
		p := &m.Prepared[i]
		if p.Seq <= before || p.Seq > m.Stable.Seq+c.cfg.Window || p.View >= m.View {
			return false
		}
		before = p.Seq
		if !c.SignedBy(c.Group, PrepareStatement(c.cfg.Domain, m.Epoch, p.View, p.Seq, p.Digest), p.Signatures) {
			return false
		}
	}
	return true
}

// provenStable verifies a certificate of this epoch, or the one that it began with.
func (c *Core) provenStable(cert bft.Certificate) bool {
	switch {
	case cert.Seq < c.Start.Seq:
		return false
	case cert.Seq == c.Start.Seq:
		return cert.State == c.Start.State && cert.Next.Equal(c.Start.Next)
	case cert.Same(c.Stable):
		return true
	}
	return cert.Epoch == c.Group.Epoch && c.Group.Allows(cert.Checkpoint) && c.signedStable(c.Group, cert)
}

// signedStable reports whether a quorum of a group has signed a certificate.
func (c *Core) signedStable(g bft.Group, cert bft.Certificate) bool {
	return c.SignedBy(g, CheckpointStatement(c.cfg.Domain, cert.Checkpoint), cert.Signatures)
}
