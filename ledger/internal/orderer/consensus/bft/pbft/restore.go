package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// ViewRecord: the replica is in this view, and has left those before.
type ViewRecord struct {
	Epoch, View uint64
	Active      bool
	Base        uint64 // sequence numbers up to it are settled by the view's beginning
}

// AcceptRecord: the replica votes for this digest. A nil entry is still to be fetched: no vote has left for it.
type AcceptRecord struct {
	Epoch, View, Seq uint64
	Digest           bft.Digest
	Entry            *bft.Entry
}

// PreparedRecord: the replica has committed to this.
type PreparedRecord struct {
	Epoch uint64
	Prepared
}

// StableRecord: all records of entries up to the certificate's are obsolete.
type StableRecord struct{ Certificate bft.Certificate }

// VoteRecord: the replica has vouched for this state.
type VoteRecord struct{ Checkpoint bft.Checkpoint }

// Kind implements bft.Record; so do those below.
func (*ViewRecord) Kind() string     { return "view" }
func (*AcceptRecord) Kind() string   { return "accept" }
func (*PreparedRecord) Kind() string { return "prepared" }
func (*StableRecord) Kind() string   { return "stable" }
func (*VoteRecord) Kind() string     { return "vote" }

// restore takes up where the records end.
func (c *Core) restore(records []bft.Record) {
	closed, applied := c.Closed, c.Applied
	for _, r := range records {
		c.replay(r)
	}
	c.Applied = applied
	// The configuration that the state ends with has opened its epoch already.
	c.Closed = closed && c.Applied > c.Start.Seq
	c.Forgotten = c.Floor()
	for seq := range c.slots {
		if seq <= c.Forgotten {
			delete(c.slots, seq)
		}
	}
	c.Last = max(c.Last, c.Applied)
	c.reopen()
	for len(c.own) > 0 && c.own[0].Seq <= c.Stable.Seq {
		c.own = c.own[1:]
	}
	vouched := len(c.own) > 0 && c.own[len(c.own)-1].Seq >= c.Applied
	c.Resume(vouched, c.cfg.Interval)
	if at := c.Group.Index(c.ID); at >= 0 {
		for _, cp := range c.own {
			c.votes.Add(at, cp.Seq, cp, c.Oracle.Sign(CheckpointStatement(c.cfg.Domain, cp)))
		}
		if !c.Active {
			c.keep(at, c.viewChange(), proven)
		}
	}
	c.Out = bft.Effects{}
	c.enterNext()
	c.First = append(c.First, c.Out.Persist...) // a crash came between the end of an epoch and the record of the next
	c.Out = bft.Effects{}
}

func (c *Core) replay(r bft.Record) {
	switch r := r.(type) {
	case *StableRecord:
		c.Stable = r.Certificate
	case *ViewRecord:
		if r.Epoch != c.Group.Epoch {
			c.enter()
			return
		}
		c.turn(r.View)
		c.Active, c.base, c.next = r.Active, r.Base, r.Base+1
		c.Last = r.Base
	case *AcceptRecord:
		s := c.slot(r.Seq)
		if s == nil || r.Epoch != c.Group.Epoch {
			return
		}
		s.accepted, s.view, s.digest, s.entry = true, r.View, r.Digest, r.Entry
		c.Last, c.next = max(c.Last, r.Seq), max(c.next, r.Seq+1)
		if r.Entry != nil {
			if r.Entry.Config {
				c.closing = r.Seq
			}
			if r.View == c.InView {
				c.castOwn(r.Seq, s)
			}
		}
	case *PreparedRecord:
		s := c.slot(r.Seq)
		if s == nil || r.Epoch != c.Group.Epoch {
			return
		}
		prepared := r.Prepared
		body := s.body(r.Digest)
		s.prepared, s.preparedEntry = &prepared, body
		if at := c.Group.Index(c.ID); at >= 0 {
			s.commits[at] = vote{cast: true, view: r.View, digest: r.Digest}
		}
	case *VoteRecord:
		if r.Checkpoint.Epoch == c.Group.Epoch {
			c.own = append(c.own, r.Checkpoint)
		}
	}
}

// Records implements bft.Core.
func (c *Core) Records() []bft.Record {
	var records []bft.Record
	for _, end := range c.Ends {
		records = append(records, &StableRecord{Certificate: end}, &ViewRecord{Epoch: end.Next.Epoch, Active: true, Base: end.Seq})
	}
	if c.Stable.Seq > c.Start.Seq {
		records = append(records, &StableRecord{Certificate: c.Stable})
	}
	for _, cp := range c.own {
		records = append(records, &VoteRecord{Checkpoint: cp})
	}
	// What is prepared was accepted in its own view.
	epoch := c.Group.Epoch
	for seq := c.Floor() + 1; seq <= c.Stable.Seq+c.cfg.Window; seq++ {
		if s := c.slots[seq]; s != nil && s.prepared != nil {
			records = append(records,
				&AcceptRecord{Epoch: epoch, View: s.prepared.View, Seq: seq, Digest: s.prepared.Digest, Entry: s.preparedEntry},
				&PreparedRecord{Epoch: epoch, Prepared: *s.prepared})
		}
	}
	records = append(records, &ViewRecord{Epoch: epoch, View: c.InView, Active: c.Active, Base: c.base})
	for seq := c.Floor() + 1; seq <= c.Stable.Seq+c.cfg.Window; seq++ {
		if s := c.slots[seq]; s != nil && s.accepted && !s.unvoted {
			records = append(records, &AcceptRecord{Epoch: epoch, View: s.view, Seq: seq, Digest: s.digest, Entry: s.entry})
		}
	}
	return records
}

// CheckpointOf is what a record says of a state; stable: a quorum says so.
func CheckpointOf(r bft.Record) (cp bft.Checkpoint, stable, is bool) {
	switch r := r.(type) {
	case *StableRecord:
		return r.Certificate.Checkpoint, true, true
	case *VoteRecord:
		return r.Checkpoint, false, true
	}
	return cp, false, false
}
