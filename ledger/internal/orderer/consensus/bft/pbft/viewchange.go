package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// head is what a replica waits for longest. Its leader is given up when that takes too long.
type head struct {
	waits bool
	tx    bft.Digest // zero: for an entry that is under way
	seq   uint64
	since bft.Time
	told  bool // the leader has been given the transaction
}

// timeout is how long the present leader has.
func (c *Core) timeout() bft.Time {
	t := c.cfg.Timeout
	if !c.rules.doubling {
		return t
	}
	for range c.attempts {
		if t *= 2; t >= c.cfg.MaxTimeout {
			return c.cfg.MaxTimeout
		}
	}
	return t
}

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
		c.sendStatus()
	}
}

func (c *Core) watchLeader() {
	c.leaderAt = 0
	if !c.member() || c.closed || c.fetching != 0 {
		c.head = head{}
		return
	}
	if !c.active {
		c.head = head{}
		if c.quorumAt == 0 {
			return
		}
		if c.now >= c.quorumAt+c.timeout() {
			c.leave(c.view + 1)
		}
		if !c.active && c.quorumAt != 0 {
			c.leaderAt = c.quorumAt + c.timeout()
		}
		return
	}
	now := head{waits: true, since: c.now}
	if it := c.pending.oldest(); it != nil {
		now.tx = it.digest
	} else if c.last > c.applied {
		now.seq = c.applied + 1
	} else {
		now = head{}
	}
	if now.waits != c.head.waits || now.tx != c.head.tx || now.seq != c.head.seq {
		c.head = now
	}
	if !c.head.waits {
		return
	}
	if it := c.pending.oldest(); it != nil && !c.head.told {
		if c.now < c.head.since+c.timeout()/2 {
			c.leaderAt = c.head.since + c.timeout()/2
			return
		}
		// A liar may have brought it here and kept it from the leader.
		c.head.told = true
		c.send(c.group.Leader(c.view), &Request{Txs: [][]byte{it.tx}})
	}
	c.leaderAt = c.head.since + c.timeout()
	if c.now >= c.leaderAt {
		c.leave(c.view + 1)
		c.leaderAt = 0
	}
}

// leave gives up all views before this one.
func (c *Core) leave(view uint64) {
	c.suspicions++
	c.attempts++
	c.turn(view)
	if c.rules.durableView {
		c.persist(&ViewRecord{Epoch: c.group.Epoch, View: view})
	}
	own := c.viewChange()
	c.changes[c.group.Index(c.cfg.ID)] = own
	c.broadcast(own)
	c.countChanges()
}

// turn forgets what belongs to the view before.
func (c *Core) turn(view uint64) {
	c.view, c.active, c.newView, c.quorumAt, c.closing, c.base = view, false, nil, 0, 0, 0
	c.head = head{}
	for seq := c.floor() + 1; seq <= c.stable.Seq+c.cfg.Window; seq++ {
		if s := c.slots[seq]; s != nil {
			if s.accepted && s.entry != nil {
				s.left, s.leftAs = s.entry, s.digest
			}
			s.accepted, s.entry, s.again, s.fetched = false, nil, 0, nil
			clear(s.prepares)
		}
	}
	c.pending.reshelve()
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
	if c.rules.forwardOnly && (m.View < c.view || m.View == c.view && c.active) {
		return
	}
	if old := c.changes[at]; old != nil && m.View <= old.View && c.rules.forwardOnly {
		return
	}
	if !c.provenChange(m) {
		return
	}
	c.changes[at] = m
	c.adopt(m.Stable)
	if m.Epoch != c.group.Epoch {
		return
	}
	if !c.rules.forwardOnly && m.View < c.view {
		c.leave(m.View)
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
	if later >= c.rules.weak(c.group) {
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
	for _, m := range c.changes {
		if m == nil || m.View < c.view {
			continue
		}
		left++
		if m.View == c.view && c.hasBodies(m) {
			usable = append(usable, m)
		}
	}
	quorum := c.rules.quorum(c.group)
	if left >= quorum && c.quorumAt == 0 {
		c.quorumAt = c.now
	}
	if c.group.Leader(c.view) != c.cfg.ID || len(usable) < quorum {
		return
	}
	m := &NewView{Epoch: c.group.Epoch, View: c.view, Changes: usable[:quorum]}
	m.Signature = c.oracle.Sign(m.Statement(c.cfg.Domain))
	c.broadcast(m)
	c.install(m)
}

// hasBodies reports whether the entries that a view change names are here; otherwise it asks for them. A new
// leader counts only such view changes, so that each entry it proposes can be had from it.
func (c *Core) hasBodies(m *ViewChange) bool {
	if c.group.Leader(c.view) != c.cfg.ID {
		return true
	}
	all := true
	for _, p := range m.Prepared {
		s := c.slot(p.Seq)
		if s == nil { // below this replica's own floor: what a new view says of it is settled
			continue
		}
		if s.body(p.Digest) == nil {
			all = false
			c.send(m.Replica, &Want{Epoch: c.group.Epoch, Seq: p.Seq, Digest: p.Digest})
		}
	}
	return all
}

// provenChange verifies a view change by itself.
func (c *Core) provenChange(m *ViewChange) bool {
	if at := c.group.Index(m.Replica); at >= 0 && c.changes[at] == m {
		return true
	}
	if c.rules.signedChanges && !c.oracle.Verify(m.Replica, m.Statement(c.cfg.Domain), m.Signature) {
		return false
	}
	if !c.provenStable(m.Stable) {
		return false
	}
	before := m.Stable.Seq
	for i := range m.Prepared {
		p := &m.Prepared[i]
		if p.Seq <= before || p.Seq > m.Stable.Seq+c.cfg.Window || p.View >= m.View {
			return false
		}
		before = p.Seq
		if c.rules.provenPrepared && !c.signedBy(c.group, PrepareStatement(c.cfg.Domain, m.Epoch, p.View, p.Seq, p.Digest), p.Signatures) {
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
	case cert.Seq == c.stable.Seq && cert.Checkpoint.Equal(c.stable.Checkpoint):
		return true
	}
	return cert.Epoch == c.group.Epoch && c.properNext(c.group, cert.Checkpoint) &&
		c.signedBy(c.group, CheckpointStatement(c.cfg.Domain, cert.Checkpoint), cert.Signatures)
}
