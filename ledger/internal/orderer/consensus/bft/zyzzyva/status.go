package zyzzyva

import (
	"maps"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
)

// sendStatus tells where this replica stands, and asks again for what it misses.
func (c *Core) sendStatus() {
	c.StatusAt = c.Now + c.cfg.Resend
	if !c.busy() {
		c.StatusAt += (bft.IdleResends - 1) * c.cfg.Resend
	}
	m := &Status{Epoch: c.Group.Epoch, View: c.InView, Active: c.Active, Stable: c.Stable.Seq, Applied: c.Applied, Last: c.Last}
	m.History = c.tip
	m.Final, _ = c.historyAt(c.Applied)
	c.Broadcast(m)
	if c.lacksLocals() {
		c.Broadcast(&Commit{Certificate: c.cert})
	}
	c.confirm()
	c.countChanges()
}

// lacksLocals reports whether this replica holds a certificate that too few others have said they hold.
func (c *Core) lacksLocals() bool {
	return c.Active && !c.cert.Start && c.cert.View == c.InView && c.cert.Seq > c.final
}

// busy reports whether the replica waits for something that messages of others would bring.
func (c *Core) busy() bool {
	return c.Busy() || len(c.own) > 0 || len(c.early) > 0
}

func (c *Core) onWant(from bft.ID, m *bft.Want) {
	if m.Epoch != c.Group.Epoch {
		return
	}
	if body := c.body(m.Seq, m.Digest); body != nil && c.Ration.Take(from, c.Now, body.Size()) {
		c.Send(from, &bft.Have{Epoch: m.Epoch, Seq: m.Seq, Entry: body})
	}
}

func (c *Core) onHave(m *bft.Have) {
	p := c.planned
	if m.Epoch != c.Group.Epoch || p == nil || p.held || m.Seq <= p.stable.Seq || m.Seq > p.last() {
		return
	}
	if m.Entry.Digest() == p.digests[m.Seq-p.stable.Seq-1] {
		c.bodies[m.Entry.Digest()] = m.Entry
		c.confirm()
	}
}

// onStatus sends what the other one misses.
func (c *Core) onStatus(from bft.ID, m *Status) {
	at := base.Standing{Epoch: m.Epoch, View: m.View, Stable: m.Stable, Last: m.Last}
	if !c.Hears(from, at, c.cfg.Resend) {
		return
	}
	if c.Lacks(at) {
		c.Send(from, &Proof{Stable: c.Proof(m.Epoch)})
	}
	if !c.Together(from, m.Epoch) {
		return
	}
	c.hear(from, m)
	for _, own := range c.own {
		if own.Seq > m.Stable {
			c.Send(from, c.checkpointVote(own))
		}
	}
	own := c.changes[c.Group.Index(c.ID)]
	switch {
	case m.View > c.InView:
	case !c.Active:
		if own != nil && own.View == c.InView {
			c.Send(from, own)
		}
		c.resendBeginning(from)
	case m.View < c.InView || !m.Active:
		c.resendBeginning(from)
	default:
		c.resend(from, m)
	}
}

// resendBeginning repeats how this view begins.
func (c *Core) resendBeginning(to bft.ID) {
	if c.Active {
		if c.begun != nil {
			c.Send(to, c.begun)
		}
		return
	}
	if c.newView != nil {
		c.Send(to, c.newView)
	}
	if c.planned != nil && c.planned.held {
		c.Send(to, c.confirmation())
	}
}

// resend repeats orders and votes that the other one may not have.
func (c *Core) resend(to bft.ID, m *Status) {
	first := m.Last
	if history, known := c.historyAt(m.Last); known && history != m.History {
		first = max(m.Applied, c.base) // the leader has told the other one something else
	}
	for seq := first + 1; seq <= min(c.Last, first+bft.Resent); seq++ {
		if s := c.slots[seq]; s != nil && s.order != nil && c.Ration.Take(to, c.Now, s.entry.Size()) {
			c.Send(to, &Order{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, History: s.history, Entry: s.entry, Signature: s.order})
		}
	}
	if c.accusers[c.Group.Index(c.ID)] {
		c.Send(to, &Accuse{Epoch: c.Group.Epoch, View: c.InView})
	}
	if m.Applied >= c.Last {
		return
	}
	if s := c.slots[c.final]; c.final > max(m.Applied, c.base) && s != nil && s.entry != nil {
		c.certifyAt(c.final)
		c.Send(to, c.response(c.final, s))
	}
	at := c.Group.Index(c.ID)
	for _, seq := range slices.Sorted(maps.Keys(c.rounds)) {
		if r := c.rounds[seq]; r.sent && seq > m.Applied {
			again := &Response{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, History: r.votes[at].history, Signature: r.votes[at].signature}
			if s := c.slots[seq]; s != nil && s.history == again.History {
				again.Order = s.order // the other one may have got another order since it heard this first
			}
			c.Send(to, again)
		}
	}
	if local := c.localCommit(); local != nil && local.Seq > m.Applied {
		if !c.cert.Start {
			c.Send(to, &Commit{Certificate: c.cert})
		}
		c.Send(to, local)
	}
}
