package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// leave gives up all views before this one.
func (c *Core) leave(view uint64) {
	c.Suspicions++
	c.Suspect.GaveUp()
	c.turn(view)
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: view})
	own := c.viewChange()
	c.changes[c.Group.Index(c.ID)] = own
	c.Broadcast(own)
	c.countChanges()
}

// turn forgets what belongs to the view before. The history stays until the next view begins with one.
// Where this replica has left for the view already, confirms of it have come: they overtake its beginning.
func (c *Core) turn(view uint64) {
	if view != c.InView {
		clear(c.confirms)
	}
	c.InView, c.Active, c.newView, c.planned = view, false, nil, nil
	c.certAt, c.settleAt, c.askAt = 0, 0, 0
	c.Suspect.Turn()
	clear(c.early)
	clear(c.rounds)
	clear(c.accusers)
}

// viewChange is this replica's history, and the certificate that it was accepted under.
func (c *Core) viewChange() *ViewChange {
	m := &ViewChange{Epoch: c.Group.Epoch, View: c.InView, Stable: c.Stable, Certificate: c.cert, Replica: c.ID}
	m.Digests = c.digests(c.Last)
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
	if !c.signedChange(m) || !c.provenChange(m) {
		return
	}
	c.changes[at] = m
	c.adopt(m.Stable)
	if m.Epoch != c.Group.Epoch {
		return
	}
	c.join()
	c.countChanges()
}

// join leaves the view with f others: f+1 replicas that accuse its leader, or have left already, have a correct one among
// them. It follows those who have left to the lowest view that f+1 ask for.
func (c *Core) join() {
	against, later, lowest := 0, 0, uint64(0)
	for at, m := range c.changes {
		left := m != nil && m.View > c.InView
		if left {
			if later++; lowest == 0 || m.View < lowest {
				lowest = m.View
			}
		}
		if left || c.accusers[at] {
			against++
		}
	}
	switch weak := c.Weak(); {
	case later >= weak:
		c.leave(lowest)
	case c.Active && against >= weak:
		c.leave(c.InView + 1)
	}
}

// countChanges starts the wait for a new view once a quorum wants it, and leads that view where it is ours.
func (c *Core) countChanges() {
	if c.Active {
		return
	}
	left := 0
	var usable []*ViewChange
	for _, m := range c.changes {
		if m == nil || m.View < c.InView {
			continue
		}
		left++
		if m.View == c.InView {
			usable = append(usable, m)
		}
	}
	quorum := c.Quorum()
	if left >= quorum {
		c.Suspect.Begin(c.Now, false)
	}
	if c.Leader() != c.ID || len(usable) < quorum {
		return
	}
	if c.newView != nil || c.planned != nil {
		return // after a restart too: it has confirmed how the view begins
	}
	m := &NewView{Epoch: c.Group.Epoch, View: c.InView, Changes: usable[:quorum]}
	m.Signature = c.Oracle.Sign(m.Statement(c.cfg.Domain))
	c.Broadcast(m)
	c.install(m)
}

// kept reports whether a view change is the latest of its member's.
func (c *Core) kept(m *ViewChange) bool {
	at := c.Group.Index(m.Replica)
	return at >= 0 && c.changes[at] == m
}

// signedChange verifies whose view change it is.
func (c *Core) signedChange(m *ViewChange) bool {
	return c.kept(m) || c.Oracle.Verify(m.Replica, m.Statement(c.cfg.Domain), m.Signature)
}

// provenChange verifies what a view change rests on.
func (c *Core) provenChange(m *ViewChange) bool {
	if c.kept(m) {
		return true
	}
	cert := &m.Certificate
	if uint64(len(m.Digests)) > c.cfg.Window || cert.Epoch != m.Epoch || cert.View >= m.View || !c.provenStable(&m.Stable) || !c.proven(cert) {
		return false
	}
	// The certificate is of this history, if it is not older.
	history, known := m.historyAt(cert.Seq, c.Start.Seq)
	return cert.Seq <= m.Stable.Seq || known && history == cert.History
}

// historyAt is the history that a view change names, up to a sequence number.
func (m *ViewChange) historyAt(seq, start uint64) (history bft.Digest, known bool) {
	if seq < m.Stable.Seq || seq > m.last() {
		return history, false
	}
	history = historyOf(&m.Stable, start, m.Epoch)
	for _, d := range m.Digests[:seq-m.Stable.Seq] {
		history = Chain(history, d)
	}
	return history, true
}

func (m *ViewChange) last() uint64 { return m.Stable.Seq + uint64(len(m.Digests)) }

// provenStable verifies a stable checkpoint of this epoch, or the one that it began with.
func (c *Core) provenStable(s *Stable) bool {
	switch {
	case s.Seq < c.Start.Seq:
		return false
	case s.Seq == c.Start.Seq:
		return s.State == c.Start.State && s.Next.Equal(c.Start.Next)
	case s.same(&c.Stable):
		return true
	}
	return s.Epoch == c.Group.Epoch && c.Group.Allows(s.Checkpoint) && c.signedStable(c.Group, *s)
}

// signedStable reports whether a quorum of a group has signed a stable checkpoint.
func (c *Core) signedStable(g bft.Group, s Stable) bool {
	return c.SignedBy(g, CheckpointStatement(c.cfg.Domain, s.Checkpoint, s.History), s.Signatures)
}
