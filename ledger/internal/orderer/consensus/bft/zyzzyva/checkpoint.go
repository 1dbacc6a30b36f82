package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// vouched is a final state and the history that it came of.
type vouched struct {
	bft.Checkpoint
	history bft.Digest
}

func (v *vouched) equal(other *vouched) bool {
	return v.Checkpoint.Equal(other.Checkpoint) && v.history == other.history
}

// synced vouches for a state that is durable, and final as all that is applied.
func (c *Core) synced(in bft.Synced) {
	waited := !c.Configured()
	cp, fresh := c.Durable(in)
	if waited && c.Configured() {
		c.recheck()
		c.advance()
	}
	history, known := c.historyAt(in.Seq)
	if !fresh || !known {
		return
	}
	c.own = append(c.own, vouched{cp, history})
	c.Persist(&VoteRecord{Checkpoint: cp, History: history})
	if at := c.Group.Index(c.ID); at >= 0 {
		m := c.checkpointVote(c.own[len(c.own)-1])
		c.votes.Add(at, cp.Seq, vouched{cp, history}, m.Signature)
		c.Broadcast(m)
		c.checkStable(vouched{cp, history})
	}
}

func (c *Core) checkpointVote(v vouched) *CheckpointVote {
	return &CheckpointVote{
		Checkpoint: v.Checkpoint, History: v.history,
		Signature: c.Oracle.Sign(CheckpointStatement(c.cfg.Domain, v.Checkpoint, v.history)),
	}
}

func (c *Core) onCheckpointVote(from bft.ID, m *CheckpointVote) {
	cp := m.Checkpoint
	if cp.Epoch != c.Group.Epoch || cp.Seq <= c.Stable.Seq || !c.Group.Allows(cp) {
		return
	}
	if !c.Oracle.Verify(from, CheckpointStatement(c.cfg.Domain, cp, m.History), m.Signature) {
		return
	}
	c.votes.Add(c.Group.Index(from), cp.Seq, vouched{cp, m.History}, m.Signature)
	c.checkStable(vouched{cp, m.History})
}

// checkStable makes a stable checkpoint where a quorum vouches for the same.
func (c *Core) checkStable(state vouched) {
	signatures := c.votes.For(func(_ uint64, other vouched) bool { return other.equal(&state) })
	if len(signatures) >= c.Quorum() {
		c.adopt(Stable{Checkpoint: state.Checkpoint, History: state.history, Signatures: signatures})
	}
}

// adopt takes a verified stable checkpoint of this epoch.
func (c *Core) adopt(s Stable) {
	if s.Seq <= c.Stable.Seq {
		return
	}
	for _, own := range c.own {
		if own.Seq == s.Seq && !own.Checkpoint.Equal(s.Checkpoint) {
			c.Fault("the state after entry %d is %s, a quorum has %s", own.Seq, own.State, s.State)
			return
		}
	}
	c.follow(&s)
	for len(c.own) > 0 && c.own[0].Seq <= s.Seq {
		c.own = c.own[1:]
	}
	c.collect()
	if c.Lags(c.cfg.Window) {
		c.fetch()
	} else {
		c.FetchLater(c.cfg.Resend)
	}
	c.enterNext()
}

// follow makes the stable checkpoint part of this replica's history. What the replica has accepted is decided up to there
// if it has the same history; otherwise it can never be, and is forgotten.
func (c *Core) follow(s *Stable) {
	history, known := c.historyAt(s.Seq)
	before := c.Stable.Seq
	c.Stable = *s
	c.Persist(&StableRecord{Stable: *s})
	switch {
	case c.Last < s.Seq || !known: // what comes next may lead there
	case known && history == s.History:
		c.believe(s.Seq)
	case s.Seq <= c.final:
		c.Fault("the history up to entry %d is %s, a quorum has %s", s.Seq, history, s.History)
	default:
		c.astray(max(c.final, before)) // what is decided may wait here to be applied, for a fetch or for the ledger
	}
}

// astray forgets a history that was never decided, and what certifies it.
func (c *Core) astray(last uint64) {
	c.truncate(last)
	if c.cert.Seq <= c.Last {
		return
	}
	if c.Active && c.begun != nil && c.begun.Certificate.Seq <= c.Stable.Seq {
		// It goes on in this view, where others count on its answers: it says so when it leaves.
		c.cert = c.begun.Certificate
		return
	}
	c.cert = Certificate{Epoch: c.Group.Epoch, Seq: c.Start.Seq, History: Beginning(c.Group.Epoch), Start: true}
}

// anchor says what history the next entry goes on from, where the one before it is not here.
func (c *Core) anchor(seq uint64, history bft.Digest) {
	if c.slots[seq] == nil {
		c.slots[seq] = &slot{history: history}
	}
}

// reached compares the accepted history with the stable checkpoint that it has come to.
func (c *Core) reached() {
	if c.tip == c.stableHistory() {
		c.believe(c.Stable.Seq)
	} else {
		c.astray(c.Applied)
		c.fetch()
	}
}

// collect forgets what nobody needs: it is applied here and durable at a quorum.
func (c *Core) collect() {
	floor := c.Floor()
	for ; c.Forgotten < floor; c.Forgotten++ {
		c.misplace(c.Forgotten)
		delete(c.slots, c.Forgotten) // the one at the floor says what history the next goes on from
		delete(c.early, c.Forgotten+1)
		delete(c.rounds, c.Forgotten+1)
	}
	if c.Applied >= c.Stable.Seq {
		c.Behind = 0
	}
	if c.Active && (c.Applied >= c.Stable.Seq || c.Fetching != 0) {
		c.shed()
	}
}

// misplace forgets where the transactions of an entry are that is not applied here, but fetched with all before it.
func (c *Core) misplace(seq uint64) {
	s := c.slots[seq]
	if seq <= c.Applied || s == nil || s.entry == nil {
		return
	}
	for _, tx := range s.entry.IDs() {
		if c.places[tx] == seq {
			delete(c.places, tx)
		}
	}
}

// shed forgets the entries that this view has left out. A later view that begins with one of them has heard no replica that
// has begun this view, and one of those that it has heard still has the entry. What this view has begun with is kept until it
// is stable.
func (c *Core) shed() {
	if len(c.bodies) == 0 {
		return
	}
	kept := map[bft.Digest]*bft.Entry{}
	if p := c.planned; p != nil && p.last() > c.Stable.Seq {
		for _, d := range p.digests[max(c.Stable.Seq, p.stable.Seq)-p.stable.Seq:] {
			if e := c.bodies[d]; e != nil {
				kept[d] = e
			}
		}
	}
	c.bodies = kept
}

// enterNext begins the next epoch once the end of this one is stable and applied.
func (c *Core) enterNext() {
	if c.Ended() {
		c.enter()
	}
}

// enter begins the epoch that the stable checkpoint opens. Nothing was ordered after the configuration that ended the one
// before.
func (c *Core) enter() {
	c.Ends = append(c.Ends, c.Stable)
	c.Start, c.Group = c.Stable, c.Stable.Next
	c.InView, c.Active, c.base, c.closing = 0, true, c.Stable.Seq, 0
	c.Closed, c.own = false, nil
	c.truncate(c.Stable.Seq)
	clear(c.slots)
	clear(c.early)
	clear(c.rounds)
	clear(c.bodies)
	c.Last, c.tip, c.final, c.Forgotten = c.Stable.Seq, Beginning(c.Group.Epoch), max(c.Applied, c.Stable.Seq), c.Stable.Seq
	c.certAt, c.settleAt = 0, 0
	c.anchor(c.Stable.Seq, c.tip)
	c.resetEpoch()
	c.reshelve()
	c.Recheck()
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: 0, Active: true})
	c.StatusAt = c.Now
	if c.Member() {
		c.Forward()
	}
}

// onProof takes stable checkpoints of this epoch, and of those after it.
func (c *Core) onProof(m *Proof) {
	epoch := c.Group.Epoch
	fresh := c.Believable(m.Stable, c.signedStable)
	for i := range fresh {
		if fresh[i].Epoch != c.Group.Epoch {
			// The end of the epoch before is stable and not applied here: there is more to fetch than this.
			c.enter()
		}
		c.adopt(fresh[i])
	}
	if c.Group.Epoch != epoch && c.Applied < c.Stable.Seq {
		c.fetch()
	}
}

// fetch gives up applying entries up to the stable checkpoint, and asks for the state there.
func (c *Core) fetch() {
	c.Behind = 0
	if c.Fetching == c.Stable.Seq {
		return
	}
	s := c.Stable
	if s.Ends() && s.Epoch == c.Group.Epoch {
		c.enter()
	}
	c.undo(c.Applied)
	if c.Last <= s.Seq {
		c.truncate(c.Applied)
		c.Last, c.tip = s.Seq, c.stableHistory()
		c.anchor(c.Last, c.tip)
	}
	c.Fetching, c.Out.Fetch = s.Seq, &bft.Fetch{Certificate: s.certificate()}
	c.collect()
	c.confirm()
	c.advance()
}

func (c *Core) fetched(in bft.Fetched) {
	waited := !c.Configured()
	if c.Took(in) {
		c.executed, c.final = in.Seq, max(c.final, in.Seq)
		c.collect()
		for tx, at := range c.places {
			if at <= in.Seq {
				delete(c.places, tx)
			}
		}
		c.FetchLater(c.cfg.Resend)
	}
	if waited && c.Configured() {
		c.recheck()
	}
	c.advance()
}
