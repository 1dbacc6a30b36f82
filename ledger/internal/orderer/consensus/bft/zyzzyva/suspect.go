package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// watch does what time alone asks for.
func (c *Core) watch() {
	if c.certAt != 0 && c.now >= c.certAt {
		c.certify()
		c.applyFinal()
	}
	if c.settleAt != 0 && c.now >= c.settleAt {
		c.settleAt = 0
		if c.leads() && c.last > c.final {
			c.settle(c.last)
			c.applyFinal()
		}
	}
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
	c.suspect.At = 0
	if c.leads() {
		c.suspect.Heard(c.now)
	}
	oldest := c.pending.Oldest() // in a view that has not begun too, for what it refuses takes up room
	switch {
	case !c.member() || c.closed || c.fetching != 0:
		c.suspect.Rest(c.now)
	case !c.active:
		c.suspect.Rest(c.now)
		if c.suspect.BeginsLate(c.now) {
			c.leave(c.view + 1)
		}
		if !c.active {
			c.suspect.Await()
		}
	case c.suspect.Look(c.now, oldest, c.underWay(), c.remind) && !c.accusers[c.group.Index(c.cfg.ID)] && c.suspect.Late(c.now):
		c.accuse()
	}
}

// underWay is the entry that is to be applied next, where it is accepted; 0: it is not.
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

// accuse says that this replica wants the view to end. It goes on in it until f others want so too: a fast decision
// takes all replicas, so that one which leaves alone would be missed.
func (c *Core) accuse() {
	at := c.group.Index(c.cfg.ID)
	if at < 0 || !c.active || c.accusers[at] {
		return
	}
	c.accusers[at] = true
	c.broadcast(&Accuse{Epoch: c.group.Epoch, View: c.view})
	c.join()
}

func (c *Core) onAccuse(from bft.ID, m *Accuse) {
	if m.Epoch == c.group.Epoch && m.View == c.view && c.active && c.member() {
		c.accusers[c.group.Index(from)] = true
		c.join()
	}
}

// twoOrders tells all of a leader that has signed two histories for one place.
func (c *Core) twoOrders(seq uint64, history bft.Digest, signature []byte, m *Order) {
	c.onMisbehaviour(&Misbehaviour{
		Epoch: m.Epoch, View: m.View, Seq: seq,
		Histories: [2]bft.Digest{history, m.History}, Signatures: [2][]byte{signature, m.Signature},
	})
}

// onMisbehaviour ends a view whose leader has lied, as is proven, and passes the proof on.
func (c *Core) onMisbehaviour(m *Misbehaviour) {
	if m.Epoch != c.group.Epoch || m.View != c.view || !c.active || !c.member() || m.Histories[0] == m.Histories[1] {
		return
	}
	for i := range m.Histories {
		if !c.oracle.Verify(c.group.Leader(m.View), OrderStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.Histories[i]), m.Signatures[i]) {
			return
		}
	}
	c.broadcast(m)
	c.leave(c.view + 1)
}
