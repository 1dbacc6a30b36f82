package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

func (c *Core) onNewView(m *NewView) {
	if m.Epoch != c.Group.Epoch || m.View == 0 || m.View < c.InView || m.View == c.InView && c.Active {
		return
	}
	if len(m.Changes) < c.Quorum() || len(m.Changes) > len(c.Group.Members) {
		return
	}
	seen := make([]bool, len(c.Group.Members))
	for _, change := range m.Changes {
		at := c.Group.Index(change.Replica)
		if at < 0 || seen[at] || change.Epoch != m.Epoch || change.View != m.View {
			return
		}
		seen[at] = true
	}
	if !c.Oracle.Verify(c.Group.Leader(m.View), m.Statement(c.cfg.Domain), m.Signature) {
		return
	}
	for _, change := range m.Changes {
		if !c.signedChange(change) {
			return
		}
	}
	for _, change := range m.Changes { // afterwards, so that a leader cannot have its own verified without a quorum's
		if !c.provenChange(change) {
			return
		}
	}
	c.install(m)
}

// choice is what a new view begins with at a sequence number.
type choice struct {
	view   uint64 // that it was prepared in
	digest bft.Digest
}

// choices follow from the view changes alone: above the newest stable checkpoint, what was prepared in the
// latest view, and nothing where nothing was. A decided entry is among them, because a quorum holds it
// prepared and every quorum of view changes has a correct member of that one.
func (c *Core) choices(changes []*ViewChange) (base bft.Certificate, chosen []choice) {
	for i, m := range changes {
		if i == 0 || m.Stable.Seq > base.Seq {
			base = m.Stable
		}
	}
	prepared := map[uint64]choice{}
	top := base.Seq
	for _, m := range changes {
		for _, p := range m.Prepared {
			if p.Seq <= base.Seq {
				continue
			}
			top = max(top, p.Seq)
			if old, has := prepared[p.Seq]; !has || p.View > old.view {
				prepared[p.Seq] = choice{p.View, p.Digest}
			}
		}
	}
	for seq := base.Seq + 1; seq <= top; seq++ {
		at, has := prepared[seq]
		if !has {
			at.digest = bft.NullDigest
		}
		chosen = append(chosen, at)
	}
	return base, chosen
}

// install begins a new view with what its view changes hold.
func (c *Core) install(m *NewView) {
	bodies := map[uint64]*bft.Entry{}
	base, chosen := c.choices(m.Changes)
	for i, ch := range chosen {
		if s := c.slots[base.Seq+1+uint64(i)]; s != nil {
			bodies[base.Seq+1+uint64(i)] = s.body(ch.digest)
		}
	}
	c.turn(m.View)
	c.adopt(base)
	if m.Epoch != c.Group.Epoch {
		return
	}
	c.Active, c.newView = true, m
	c.base = base.Seq + uint64(len(chosen))
	c.next, c.Last = c.base+1, max(c.Applied, c.base)
	c.beginSparing(c.Last)
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: c.InView, Active: true, Base: c.base})
	c.StatusAt = c.Now + c.cfg.Resend
	for i, ch := range chosen {
		c.acceptChoice(base.Seq+1+uint64(i), ch, bodies[base.Seq+1+uint64(i)])
	}
	c.Forward()
}

func (c *Core) acceptChoice(seq uint64, ch choice, body *bft.Entry) {
	s := c.slot(seq)
	if s == nil {
		return
	}
	if s.decided && s.decision != ch.digest {
		if s.decidedIn >= c.InView {
			return // the view has begun otherwise for others, or a later one has: this replica votes for nothing else
		}
		c.Fault("entry %d is decided as %s, and view %d begins with %s: more replicas lie than the group endures", seq, s.decision, c.InView, ch.digest)
		return
	}
	if body == nil {
		body = s.body(ch.digest)
	}
	c.accept(seq, s, ch.digest, body)
	if body == nil {
		c.Want(seq, ch.digest)
		return
	}
	c.vote(seq, s)
	c.checkPrepared(seq, s)
}
