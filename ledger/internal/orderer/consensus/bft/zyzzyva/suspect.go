package zyzzyva

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
)

// watch does what time alone asks for.
func (c *Core) watch() {
	if c.certAt != 0 && c.Now >= c.certAt {
		c.certify()
		c.applyFinal()
	}
	if c.settleAt != 0 && c.Now >= c.settleAt {
		c.settleAt = 0
		if c.Leads() && c.Last > c.final {
			c.settle(c.Last)
			c.applyFinal()
		}
	}
	c.watchLeader()
	c.RunDue(base.Tasks{Busy: c.busy, Fetch: c.fetch, Tell: c.sendStatus, Relay: c.cfg.Timeout / 2, Resend: c.cfg.Resend})
}

func (c *Core) watchLeader() {
	oldest, works := c.AwaitsLeader(c.Closed, c.leave)
	if works && c.Suspect.Look(c.Now, oldest, c.UnderWay(), c.Remind) && !c.accusers[c.Group.Index(c.ID)] && c.Suspect.Late(c.Now) {
		c.accuse()
	}
}

// accuse says that this replica wants the view to end. It goes on in it until f others want so too: a fast decision
// takes all replicas, so that one which leaves alone would be missed.
func (c *Core) accuse() {
	at := c.Group.Index(c.ID)
	if at < 0 || !c.Active || c.accusers[at] {
		return
	}
	c.accusers[at] = true
	c.Broadcast(&Accuse{Epoch: c.Group.Epoch, View: c.InView})
	c.join()
}

func (c *Core) onAccuse(from bft.ID, m *Accuse) {
	if m.Epoch == c.Group.Epoch && m.View == c.InView && c.Active && c.Member() {
		c.accusers[c.Group.Index(from)] = true
		c.join()
	}
}

// signed is a history that the leader has signed for a place in this view.
type signed struct {
	history   bft.Digest
	signature []byte
}

// twoOrders tells all of a leader that has signed two histories for one place.
func (c *Core) twoOrders(seq uint64, one, other signed) {
	c.onMisbehaviour(&Misbehaviour{
		Epoch: c.Group.Epoch, View: c.InView, Seq: seq,
		Histories: [2]bft.Digest{one.history, other.history}, Signatures: [2][]byte{one.signature, other.signature},
	})
}

// onMisbehaviour ends a view whose leader has lied, as is proven, and passes the proof on.
func (c *Core) onMisbehaviour(m *Misbehaviour) {
	if m.Epoch != c.Group.Epoch || m.View != c.InView || !c.Active || !c.Member() || m.Histories[0] == m.Histories[1] {
		return
	}
	for i := range m.Histories {
		if !c.Oracle.Verify(c.Group.Leader(m.View), OrderStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.Histories[i]), m.Signatures[i]) {
			return
		}
	}
	c.Broadcast(m)
	c.leave(c.InView + 1)
}
