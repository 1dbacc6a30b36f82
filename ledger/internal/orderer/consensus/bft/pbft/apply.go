package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// applyDecided hands entries to the state machine, each after the one before.
func (c *Core) applyDecided() {
	if c.fetching != 0 || c.closed {
		return
	}
	for {
		if c.outruns() {
			c.foresee()
			return
		}
		seq := c.applied + 1
		if !c.ready(seq) {
			return
		}
		s := c.slots[seq]
		c.applied = seq
		c.Suspect.Progress()
		c.last = max(c.last, seq)
		c.Pending.Ordered(s.decidedEntry)
		if len(c.ahead) > 0 {
			for _, id := range s.decidedEntry.IDs() {
				delete(c.ahead, id)
			}
		}
		c.pacer.Applied(seq, c.clock())
		c.closed = s.decidedEntry.Config
		sync := c.closed || c.boundary(seq)
		c.Out.Apply = append(c.Out.Apply, bft.Ordered{Seq: seq, Entry: s.decidedEntry, Sync: sync})
		c.collect()
		if c.enterNext(); c.closed {
			return
		}
	}
}

// outruns reports whether the ledger has a window's entries still to write: a disk that is slower than the others' would have
// them queue up without end. The replica fetches later what the others have ordered meanwhile.
func (c *Core) outruns() bool { return c.applied >= c.here+c.cfg.Window }

// foresee has nobody wait for what is decided and is applied once the ledger has followed: the leader has done its part.
func (c *Core) foresee() {
	for c.foreseen = max(c.foreseen, c.applied); c.ready(c.foreseen+1) && !c.endsAt(c.foreseen); c.foreseen++ {
		entry := c.slots[c.foreseen+1].decidedEntry
		c.Pending.Ordered(entry)
		for _, id := range entry.IDs() {
			c.ahead[id] = true
		}
	}
}

// endsAt reports whether a decided configuration is there: nothing counts after it in this epoch.
func (c *Core) endsAt(seq uint64) bool {
	s := c.slots[seq]
	return s != nil && s.decidedEntry != nil && s.decidedEntry.Config
}

// isDecided reports whether a transaction is decided.
func (c *Core) isDecided(tx bft.Digest) bool { return c.ahead[tx] || c.Oracle.Known(tx) }

// boundary reports whether a checkpoint is due after the entry. The last entry of a full window is one, so that the
// window always moves on, even where replicas have crashed before they could vouch for the others.
func (c *Core) boundary(seq uint64) bool { return (seq-c.start.Seq)%c.cfg.Interval == 0 }

func (c *Core) ready(seq uint64) bool {
	s := c.slots[seq]
	return s != nil && s.decided && s.decidedEntry != nil
}
