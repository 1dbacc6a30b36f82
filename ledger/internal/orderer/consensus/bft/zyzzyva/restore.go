package zyzzyva

import (
	"bytes"
	"maps"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// restore takes up where the records end.
func (c *Core) restore(records []bft.Record) {
	// What is applied may be ahead of what a record knew.
	closed, applied := c.Closed, c.Applied
	if len(records) > 0 {
		c.Applied, c.final = 0, 0
	}
	for _, r := range records {
		c.replay(r)
	}
	if c.damage = c.Out.Fault; c.damage != nil {
		return
	}
	c.Applied, c.final = applied, max(applied, c.final)
	// The configuration that the state ends with has opened its epoch already.
	c.Closed = closed && c.Applied > c.Start.Seq
	if c.Last < c.Applied { // the state was fetched
		c.Last, c.tip = c.Stable.Seq, c.stableHistory()
		c.anchor(c.Last, c.tip)
	}
	if c.leadsToStable() {
		c.final = max(c.final, c.Stable.Seq)
	}
	c.Forgotten = c.Floor()
	for seq := range c.slots {
		if seq < c.Forgotten {
			delete(c.slots, seq)
		}
	}
	for tx, at := range c.places {
		if at <= c.Applied {
			delete(c.places, tx)
		}
	}
	for len(c.own) > 0 && c.own[0].Seq <= c.Stable.Seq {
		c.own = c.own[1:]
	}
	vouched := len(c.own) > 0 && c.own[len(c.own)-1].Seq >= c.Applied
	c.Resume(vouched, c.cfg.Interval)
	if at := c.Group.Index(c.ID); at >= 0 {
		c.recast(at)
	}
	c.Out = bft.Effects{}
	c.enterNext()
	c.First = append(c.First, c.Out.Persist...) // a crash came between the end of an epoch and the record of the next
	c.Out, c.ran, c.executed = bft.Effects{}, map[uint64]bft.Digest{}, c.Applied
}

// recast counts this replica's own votes again, at its place among the members.
func (c *Core) recast(at int) {
	for _, own := range c.own {
		c.votes.Add(at, own.Seq, own, c.checkpointVote(own).Signature)
	}
	if !c.Active {
		c.changes[at] = c.viewChange()
		if c.planned != nil && c.planned.held {
			c.castConfirm(at)
		}
	} else if local := c.localCommit(); local != nil {
		c.locals[at] = *local
	}
}

// leadsToStable reports whether all entries between what is applied and the stable checkpoint are here.
func (c *Core) leadsToStable() bool {
	history := c.stableHistory()
	for seq := c.Stable.Seq; seq > c.Applied; seq-- {
		s := c.slots[seq]
		if s == nil || s.entry == nil || s.history != history {
			return false
		}
		if before := c.slots[seq-1]; before != nil {
			history = before.history
			if s.history != Chain(history, s.digest) {
				return false
			}
		} else if seq > c.Applied+1 {
			return false
		}
	}
	return true
}

func (c *Core) replay(r bft.Record) {
	switch r := r.(type) {
	case *StableRecord:
		history, known := c.historyAt(r.Stable.Seq)
		before := c.Stable.Seq
		c.Stable = r.Stable
		switch {
		case c.Last < c.Stable.Seq || !known:
		case history == c.Stable.History:
			c.final = max(c.final, c.Stable.Seq)
		default:
			c.astray(before)
		}
		if c.Last < c.Stable.Seq {
			c.Last, c.tip = c.Stable.Seq, c.stableHistory()
			c.anchor(c.Last, c.tip)
		}
	case *ViewRecord:
		if r.Epoch != c.Group.Epoch {
			c.enter()
			return
		}
		c.turn(r.View)
		c.Active = r.Active
	case *AcceptRecord:
		if r.Epoch == c.Group.Epoch {
			c.replayEntry(r)
		}
	case *CertificateRecord:
		if r.Certificate.Epoch == c.Group.Epoch {
			c.hold(r.Certificate)
		}
	case *ConfirmRecord:
		if r.Epoch != c.Group.Epoch {
			return
		}
		p := newPlan(r.Stable, r.Digests, c.Start.Seq, c.Group.Epoch)
		p.held = true
		for _, e := range r.Entries {
			if e != nil {
				c.bodies[e.Digest()] = e
			}
		}
		c.planned = p
	case *StartRecord:
		c.replayStart(r)
	case *VoteRecord:
		if r.Checkpoint.Epoch == c.Group.Epoch {
			c.own = append(c.own, vouched{r.Checkpoint, r.History})
		}
	case *BodyRecord:
		c.bodies[r.Entry.Digest()] = r.Entry
	}
}

// replayStart begins a view again as it was begun. What was final then counts as final here too: the history is to go on from
// where the replica has gone on from.
func (c *Core) replayStart(r *StartRecord) {
	p := c.planned
	if r.Certificate.Epoch != c.Group.Epoch || p == nil {
		return
	}
	c.final = max(c.final, r.Final)
	if c.replace(p) {
		c.began(p, r.Certificate)
	}
}

func (c *Core) replayEntry(r *AcceptRecord) {
	s := &slot{digest: r.Entry.Digest(), history: r.History, entry: r.Entry, order: r.Order}
	if r.Seq <= c.Stable.Seq {
		wrong := r.Seq == c.Stable.Seq && r.History != c.stableHistory() // the replica found so, and fetches
		if r.Seq > c.Applied && !wrong {
			c.slots[r.Seq] = s // stable and not applied
		}
		return
	}
	c.astray(r.Seq - 1)
	if c.Last+1 != r.Seq {
		c.Fault("the record of entry %d follows that of entry %d: one between them is missing. Remove this consenter, and have it join anew",
			r.Seq, c.Last)
		return
	}
	c.slots[r.Seq], c.Last, c.tip = s, r.Seq, r.History
	c.note(r.Seq, s)
}

// Records implements bft.Core.
func (c *Core) Records() []bft.Record {
	var records []bft.Record
	for i := range c.Ends {
		end := c.Ends[i]
		records = append(records, &StableRecord{Stable: end}, &ViewRecord{Epoch: end.Next.Epoch, Active: true})
	}
	if c.Stable.Seq > c.Start.Seq {
		records = append(records, &StableRecord{Stable: c.Stable})
	}
	for _, own := range c.own {
		records = append(records, &VoteRecord{Checkpoint: own.Checkpoint, History: own.history})
	}
	epoch, from := c.Group.Epoch, c.Floor()+1
	accepted := func(to uint64) {
		for ; from <= to; from++ {
			if s := c.slots[from]; s != nil && s.entry != nil {
				records = append(records, &AcceptRecord{Epoch: epoch, Seq: from, History: s.history, Entry: s.entry, Order: s.order})
			}
		}
	}
	if c.Active && c.InView > 0 {
		accepted(c.Stable.Seq)
		start := &StartRecord{Certificate: c.begun.Certificate}
		if c.final >= c.Stable.Seq {
			start.Final = c.Stable.Seq // what is not applied yet leads there
		}
		records = append(records, &ViewRecord{Epoch: epoch, View: c.InView}, c.confirmRecord(), start)
		if history, known := c.historyAt(c.base); known && history == c.begun.Certificate.History {
			from = max(from, c.base+1) // a checkpoint may have led elsewhere since
		}
	}
	accepted(c.Last)
	if !c.cert.Start || c.cert.View > 0 {
		records = append(records, &CertificateRecord{Certificate: c.cert})
	}
	if c.Active {
		return records
	}
	for _, d := range slices.SortedFunc(maps.Keys(c.bodies), func(a, b bft.Digest) int { return bytes.Compare(a[:], b[:]) }) {
		records = append(records, &BodyRecord{Entry: c.bodies[d]})
	}
	records = append(records, &ViewRecord{Epoch: epoch, View: c.InView})
	if c.planned != nil && c.planned.held {
		records = append(records, c.confirmRecord())
	}
	return records
}

// confirmRecord has those entries of the plan that are still needed.
func (c *Core) confirmRecord() *ConfirmRecord {
	p := c.planned
	r := &ConfirmRecord{Epoch: c.Group.Epoch, View: c.InView, Stable: p.stable, Digests: p.digests, Entries: make([]*bft.Entry, len(p.digests))}
	for i, d := range p.digests {
		if seq := p.stable.Seq + 1 + uint64(i); seq > c.Stable.Seq {
			r.Entries[i] = c.body(seq, d)
		}
	}
	return r
}
