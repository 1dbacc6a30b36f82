package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// spares is what a replica keeps for the times in which it is a spare.
//
// A spare is one of the members beyond a quorum, counted from the leader on. Where all of the quorum vote a spare's vote
// decides nothing, and costs all replicas messages and itself two syncs. So it takes a proposal in memory alone, with
// nothing of it verified, and applies it once a quorum has committed to it, as a replica that is late does. It votes for
// what is not decided within some time, and for what another replica lacks. Not to vote is always safe.
type spares struct {
	late  []uint64 // sequence numbers of proposals that are not voted for, in the order in which they were proposed
	took  bft.Time // moving average: from an entry's acceptance until it is decided, where all vote
	until uint64   // sequence number up to which this replica votes at once
	due   uint64   // sequence number up to which late ones are voted for as soon as may be
	spell uint64   // for how many entries it did so last because it had to
}

const (
	// spareWaits is how many times as long as where all vote a spare waits. Less would have it vote for what is only late,
	// more would give one that lies more time.
	spareWaits = 4
	// spareRange is the longest such wait to the shortest.
	spareRange = 10
	// spareWeight is how many entries' times are averaged.
	spareWeight = 8
)

// leastSpell and mostSpell bound for how many entries it votes at once where it had to vote.
func (c *Core) leastSpell() uint64 { return max(c.cfg.Interval/8, 1) }
func (c *Core) mostSpell() uint64  { return 64 * c.cfg.Interval }

// stillFor is for how many entries in a row a spare keeps still. Then it votes for a few, which tells how long they take
// where no single replica that votes late can delay them.
func (c *Core) stillFor() uint64 { return 4 * c.cfg.Interval }

func (c *Core) beginSparing(applied uint64) {
	c.spares = spares{took: c.cfg.SpareWait / spareWaits, until: applied + c.leastSpell()}
}

// keepsStill reports whether this replica is a spare for a proposal of the present leader's. It takes part where an epoch
// ends. What it keeps unverified is no larger than usual entries are.
func (c *Core) keepsStill(seq uint64, e *bft.Entry) bool {
	n := uint64(len(c.Group.Members))
	place := (uint64(c.Group.Index(c.ID)) + n - c.InView%n) % n
	if c.cfg.SpareWait == 0 || place < uint64(c.Quorum()) {
		return false
	}
	if e.Config || len(e.Txs) == 0 || len(e.Txs) > c.cfg.BatchTxs || e.Size() > c.cfg.BatchBytes {
		return false
	}
	if seq > c.spares.until+c.stillFor() {
		c.spares.until, c.spares.spell = seq+c.leastSpell()-1, 0
	}
	return seq > c.spares.until
}

// keepStill takes a proposal without a vote.
func (c *Core) keepStill(seq uint64, s *slot, digest bft.Digest, entry *bft.Entry) {
	s.unvoted = true
	c.take(seq, s, digest, entry)
	c.spares.late = append(c.spares.late, seq)
}

// timeDecided learns how long entries take where this replica votes at once. What takes long because of others it learns
// when these are no longer needed.
func (c *Core) timeDecided(s *slot, digest bft.Digest) {
	if s.accepted && !s.unvoted && s.since != 0 && s.digest == digest {
		c.spares.took += (min(c.Now-s.since, c.cfg.SpareWait) - c.spares.took) / spareWeight
	}
}

// pruneLate forgets the first late entries, as far as they need no vote any longer.
func (c *Core) pruneLate() {
	for ; len(c.spares.late) > 0; c.spares.late = c.spares.late[1:] {
		if s := c.slots[c.spares.late[0]]; s != nil && s.unvoted && !s.decided {
			return
		}
	}
}

// lateAt is when the others have had long enough for the first late entry, as pruneLate leaves it; 0: there is none.
func (c *Core) lateAt() bft.Time {
	if len(c.spares.late) == 0 {
		return 0
	}
	seq := c.spares.late[0]
	if seq <= c.spares.due {
		return max(c.Now, 1)
	}
	return c.slots[seq].since + min(max(spareWaits*c.spares.took, c.cfg.SpareWait/spareRange), c.cfg.SpareWait)
}

// watchSpared votes for one late entry whose time has come. Each has as many clients' signatures to verify as a message with
// a proposal, and other messages go between.
func (c *Core) watchSpared() {
	c.pruneLate()
	at := c.lateAt()
	if at == 0 || c.Now < at {
		return
	}
	seq := c.spares.late[0]
	if seq > c.spares.due {
		c.stepIn(seq, c.leastSpell())
	}
	c.spares.late = c.spares.late[1:]
	c.castLate(seq, c.slots[seq])
}

// stepIn votes where the others need this replica: one of them does not vote, or not to all. Most likely it is needed again,
// so that it votes at once from here on, for so many entries at least, and twice as many as the last time where that was
// a short while ago.
func (c *Core) stepIn(seq, least uint64) {
	if p := &c.spares; seq > p.until {
		if seq > p.until+p.spell {
			p.spell = 0
		}
		p.spell = min(max(2*p.spell, least), c.mostSpell())
		p.until = c.Last + p.spell
	}
	c.spares.due = c.Last
}

// castLate votes for what was taken without a vote, if it would have done so at once.
func (c *Core) castLate(seq uint64, s *slot) {
	s.unvoted = false
	for at := range s.prepares {
		if v := &s.prepares[at]; v.unverified {
			v.unverified = false
			statement := PrepareStatement(c.cfg.Domain, c.Group.Epoch, v.view, seq, v.digest)
			if !c.Oracle.Verify(c.Group.Members[at], statement, v.signature) {
				*v = vote{}
			}
		}
	}
	// A correct replica has found proper what is decided. A configuration that came later may not allow it.
	if !s.decided && (c.closing != 0 && seq > c.closing || !c.proper(s.entry)) {
		s.accepted, s.entry = false, nil
		return
	}
	c.accept(seq, s, s.digest, s.entry)
	s.since = 0
	c.vote(seq, s)
	c.checkPrepared(seq, s)
}
