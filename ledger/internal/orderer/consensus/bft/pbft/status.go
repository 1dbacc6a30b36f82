package pbft

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
)

// tellStatus sends the status that is due, unless the replica comes on and will hear by itself what it waits for.
func (c *Core) tellStatus() {
	since := c.appliedThen
	c.appliedThen = c.Applied
	if c.progresses(since) && c.busy() {
		c.StatusAt = c.Now + c.cfg.Resend
	} else {
		c.sendStatus()
	}
}

// sendStatus tells where this replica stands, and asks again for what it misses.
func (c *Core) sendStatus() {
	c.StatusAt = c.Now + c.cfg.Resend
	if !c.busy() {
		c.StatusAt += (bft.IdleResends - 1) * c.cfg.Resend
	}
	m := &Status{Epoch: c.Group.Epoch, View: c.InView, Active: c.Active, Stable: c.Stable.Seq, Applied: c.Applied, Last: c.Last}
	for i := range uint64(64) {
		if s := c.slots[c.Applied+1+i]; s != nil && s.accepted && s.entry != nil {
			m.Seen |= 1 << i
		}
	}
	c.Broadcast(m)
	for seq := c.Floor() + 1; seq <= c.Last; seq++ {
		s := c.slots[seq]
		if s == nil {
			continue
		}
		if s.accepted && s.entry == nil {
			c.Want(seq, s.digest)
		}
		if s.decided && s.decidedEntry == nil {
			c.Want(seq, s.decision)
		}
	}
	c.countChanges()
}

// progresses reports whether the replica has applied something since it had applied so much, and misses nothing else: an
// answer would bring again what is under way.
func (c *Core) progresses(since uint64) bool {
	return c.Applied > since && c.Active && !c.Closed && c.Fetching == 0 && c.Behind == 0 && len(c.own) < 2
}

// busy reports whether the replica waits for something that messages of others would bring.
func (c *Core) busy() bool {
	return c.Busy() || len(c.own) > 0
}

func (c *Core) onWant(from bft.ID, m *bft.Want) {
	if m.Epoch != c.Group.Epoch {
		return
	}
	if s := c.slots[m.Seq]; s != nil {
		if body := s.body(m.Digest); body != nil && c.Ration.Take(from, c.Now, body.Size()) {
			c.Send(from, &bft.Have{Epoch: m.Epoch, Seq: m.Seq, Entry: body})
		}
	}
}

func (c *Core) onHave(m *bft.Have) {
	s := c.slots[m.Seq]
	if m.Epoch != c.Group.Epoch || s == nil {
		return
	}
	digest := m.Entry.Digest()
	if s.decided && s.decidedEntry == nil && s.decision == digest {
		s.decidedEntry = m.Entry
	}
	if s.accepted && s.entry == nil && s.digest == digest {
		c.accept(m.Seq, s, s.digest, m.Entry)
		c.vote(m.Seq, s)
		c.checkPrepared(m.Seq, s)
	}
	if !c.Active && c.Leader() == c.ID && s.body(digest) == nil && c.named(m.Seq, digest) {
		if s.fetched == nil {
			s.fetched = map[bft.Digest]*bft.Entry{}
		}
		s.fetched[digest] = m.Entry
		c.countChanges()
	}
}

// named reports whether a view change holds the digest prepared.
func (c *Core) named(seq uint64, digest bft.Digest) bool {
	for at, m := range c.changes {
		if m == nil || c.verdicts[at] != proven {
			continue
		}
		for i := range m.Prepared {
			if m.Prepared[i].Seq == seq && m.Prepared[i].Digest == digest {
				return true
			}
		}
	}
	return false
}

// onStatus sends what the other one misses.
func (c *Core) onStatus(from bft.ID, m *Status) {
	at := base.Standing{Epoch: m.Epoch, View: m.View, Stable: m.Stable, Last: m.Last}
	if !c.Hears(from, at, c.cfg.Resend) {
		return
	}
	if c.Lacks(at) {
		c.Send(from, &Proof{Certificates: c.Proof(m.Epoch)})
	}
	if !c.Together(from, m.Epoch) {
		return
	}
	switch {
	case !c.Active && m.View <= c.InView:
		if own := c.changes[c.Group.Index(c.ID)]; own != nil {
			c.Send(from, own)
		}
	case c.Active && c.newView != nil && (m.View < c.InView || m.View == c.InView && !m.Active):
		c.Send(from, c.newView)
	}
	for _, cp := range c.own {
		if cp.Seq > m.Stable {
			c.Send(from, &CheckpointVote{Checkpoint: cp, Signature: c.Oracle.Sign(CheckpointStatement(c.cfg.Domain, cp))})
		}
	}
	c.resend(from, m)
}

// resend repeats this replica's votes for entries that the other one has not applied.
func (c *Core) resend(to bft.ID, m *Status) {
	at := c.Group.Index(c.ID)
	together := c.Active && m.Active && m.View == c.InView
	for i := range uint64(bft.Resent) {
		seq := m.Applied + 1 + i
		s := c.slots[seq]
		if s == nil {
			continue
		}
		switch {
		case together && s.unvoted: // before it is decided, its own time comes
			if s.decided && s.decision == s.digest {
				c.castLate(seq, s)
				c.stepIn(seq, c.stillFor()) // who asks has waited long, and may have to again
			}
		case together && s.accepted && s.entry != nil:
			if v := s.prepares[at]; c.Leads() && seq > c.base && m.Seen&(1<<i) == 0 && c.Ration.Take(to, c.Now, s.entry.Size()) {
				c.Send(to, &PrePrepare{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, Entry: s.entry, Signature: v.signature})
			} else {
				c.Send(to, &Prepare{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, Digest: s.digest, Signature: v.signature})
			}
		}
		if s.decided {
			c.Send(to, &Commit{Epoch: c.Group.Epoch, Seq: seq, Digest: s.decision, Decided: true})
		}
		if v := s.commits[at]; v.cast {
			c.Send(to, &Commit{Epoch: c.Group.Epoch, View: v.view, Seq: seq, Digest: v.digest})
		}
	}
}
