package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// applyDecided hands entries to the state machine, each after the one before.
func (c *Core) applyDecided() {
	if c.Fetching != 0 || c.Closed {
		return
	}
	for {
		if c.Outruns(c.cfg.Window) {
			c.foresee()
			return
		}
		seq := c.Applied + 1
		if !c.ready(seq) {
			return
		}
		s := c.slots[seq]
		c.Applied = seq
		c.Suspect.Progress()
		c.Last = max(c.Last, seq)
		c.Pending.Ordered(s.decidedEntry)
		if s.digest != s.decision {
			c.displace(s)
		}
		if len(c.foreseen) > 0 {
			for _, id := range s.decidedEntry.IDs() {
				delete(c.foreseen, id)
			}
		}
		c.pacer.Applied(seq, c.clock())
		c.Closed = s.decidedEntry.Config
		c.reopen()
		sync := c.Closed || c.Boundary(seq, c.cfg.Interval)
		c.Out.Apply = append(c.Out.Apply, bft.Ordered{Seq: seq, Entry: s.decidedEntry, Sync: sync})
		c.collect()
		if c.enterNext(); c.Closed {
			return
		}
	}
}

// displace has proposed again what waits of the entry that is accepted there. Another one is decided in its place, as a leader
// had forgotten in a crash what it proposed there before; or what is decided there is not known, as the state is fetched.
func (c *Core) displace(s *slot) {
	if s.accepted && s.entry != nil {
		c.Pending.Shelve(s.entry)
	}
}

// reopen lets the epoch go on where another entry is decided in the place of a configuration.
func (c *Core) reopen() {
	if !c.Closed && c.closing <= max(c.Applied, c.Fetching) {
		c.closing = 0
	}
}

// foresee has nobody wait for what is decided and is applied once the ledger has followed: the leader has done its part.
func (c *Core) foresee() {
	for c.Foreseen = max(c.Foreseen, c.Applied); c.ready(c.Foreseen+1) && !c.endsAt(c.Foreseen); c.Foreseen++ {
		entry := c.slots[c.Foreseen+1].decidedEntry
		c.Pending.Ordered(entry)
		for _, id := range entry.IDs() {
			c.foreseen[id] = true
		}
	}
}

// endsAt reports whether a decided configuration is there: nothing counts after it in this epoch.
func (c *Core) endsAt(seq uint64) bool {
	s := c.slots[seq]
	return s != nil && s.decidedEntry != nil && s.decidedEntry.Config
}

// isDecided reports whether a transaction is decided.
func (c *Core) isDecided(tx bft.Digest) bool { return c.foreseen[tx] || c.Oracle.Known(tx) }

func (c *Core) ready(seq uint64) bool {
	s := c.slots[seq]
	return s != nil && s.decided && s.decidedEntry != nil
}
