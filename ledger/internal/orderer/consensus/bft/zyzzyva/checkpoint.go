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
	cp := bft.Checkpoint{Epoch: c.Group.Epoch, Seq: in.Seq, State: in.State, Next: c.Group}
	if c.closed && in.Seq == c.applied {
		cp.Next = bft.Group{Epoch: in.Seq, Members: in.Members}
	}
	c.arrived(in.Seq)
	if in.Seq <= c.start.Seq || in.Seq > c.applied {
		return // of an epoch before
	}
	if in.Seq <= c.stable.Seq {
		if in.Seq == c.stable.Seq && !cp.Equal(c.stable.Checkpoint) {
			c.Fault("the state after entry %d is %s, a quorum has %s", in.Seq, cp.State, c.stable.State)
		}
		return
	}
	history, known := c.historyAt(in.Seq)
	if !known {
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
	if cp.Epoch != c.Group.Epoch || cp.Seq <= c.stable.Seq || !c.Group.Allows(cp) {
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
	if len(signatures) >= c.Group.Quorum() {
		c.adopt(Stable{Checkpoint: state.Checkpoint, History: state.history, Signatures: signatures})
	}
}

// adopt takes a verified stable checkpoint of this epoch.
func (c *Core) adopt(s Stable) {
	if s.Seq <= c.stable.Seq {
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
	switch {
	case s.Seq > max(c.applied, c.fetching)+c.cfg.Window:
		c.fetch() // nobody sends again what is so far behind, and what is kept here stays bounded
	case c.fetching == 0 && c.applied < s.Seq && c.behind == 0:
		c.behind = c.Now + c.cfg.Resend // most often the entries are under way
	}
	c.enterNext()
}

// follow makes the stable checkpoint part of this replica's history. What the replica has accepted is decided up to there
// if it has the same history; otherwise it can never be, and is forgotten.
func (c *Core) follow(s *Stable) {
	history, known := c.historyAt(s.Seq)
	before := c.stable.Seq
	c.stable = *s
	c.Persist(&StableRecord{Stable: *s})
	switch {
	case c.last < s.Seq || !known: // what comes next may lead there
	case known && history == s.History:
		c.believe(s.Seq)
	case s.Seq <= c.applied:
		c.Fault("the history up to entry %d is %s, a quorum has %s", s.Seq, history, s.History)
	default:
		c.astray(max(c.applied, before))
	}
}

// astray forgets a history that was never decided, and what certifies it.
func (c *Core) astray(last uint64) {
	c.truncate(last)
	if c.cert.Seq <= c.last {
		return
	}
	if c.Active && c.begun != nil && c.begun.Certificate.Seq <= c.stable.Seq {
		// It goes on in this view, where others count on its answers: it says so when it leaves.
		c.cert = c.begun.Certificate
		return
	}
	c.cert = Certificate{Epoch: c.Group.Epoch, Seq: c.start.Seq, History: Beginning(c.Group.Epoch), Start: true}
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
		c.believe(c.stable.Seq)
	} else {
		c.astray(c.applied)
		c.fetch()
	}
}

// collect forgets what nobody needs: it is applied here and durable at a quorum.
func (c *Core) collect() {
	floor := c.floor()
	for ; c.settled < floor; c.settled++ {
		delete(c.slots, c.settled) // the one at the floor says what history the next goes on from
		delete(c.early, c.settled+1)
		delete(c.rounds, c.settled+1)
	}
	if c.applied >= c.stable.Seq {
		c.behind = 0
		if c.Active {
			c.shed()
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
	if p := c.planned; p != nil && p.last() > c.stable.Seq {
		for _, d := range p.digests[max(c.stable.Seq, p.stable.Seq)-p.stable.Seq:] {
			if e := c.bodies[d]; e != nil {
				kept[d] = e
			}
		}
	}
	c.bodies = kept
}

// enterNext begins the next epoch once the end of this one is stable and applied.
func (c *Core) enterNext() {
	if c.closed && c.stable.Seq == c.applied && c.stable.Ends() && c.stable.Epoch == c.Group.Epoch {
		c.enter()
	}
}

// enter begins the epoch that the stable checkpoint opens. Nothing was ordered after the configuration that ended the one
// before.
func (c *Core) enter() {
	c.ends = append(c.ends, c.stable)
	c.start, c.Group = c.stable, c.stable.Next
	c.InView, c.Active, c.base, c.closing = 0, true, c.stable.Seq, 0
	c.closed, c.own = false, nil
	c.truncate(c.stable.Seq)
	clear(c.slots)
	clear(c.early)
	clear(c.rounds)
	clear(c.bodies)
	c.last, c.tip, c.final, c.settled = c.stable.Seq, Beginning(c.Group.Epoch), max(c.applied, c.stable.Seq), c.stable.Seq
	c.certAt, c.settleAt = 0, 0
	c.anchor(c.stable.Seq, c.tip)
	c.resetEpoch()
	c.reshelve()
	c.recheck()
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: 0, Active: true})
	c.statusAt = c.Now
	if c.Member() {
		c.Forward()
	}
}

// arrived notes how far the state is here.
func (c *Core) arrived(seq uint64) {
	waited := !c.configured()
	if c.here = max(c.here, seq); waited {
		c.recheck()
	}
}

// recheck gives up what the epoch's configuration does not allow, as it comes up, once the configuration is in force here.
// The others would refuse a leader who proposes that.
func (c *Core) recheck() {
	if c.configured() {
		c.Pending.Recheck()
	}
}

// configured reports whether the configuration that opens the epoch is in force here.
func (c *Core) configured() bool { return c.here >= c.start.Seq }

// onProof takes stable checkpoints: of this epoch, then of those after it. Each but the last ends its epoch, so that nobody
// has more of them verified than there are epochs.
func (c *Core) onProof(m *Proof) {
	// Those of an epoch whose members' keys come with a configuration that is still to be fetched cannot be verified yet:
	// those before them count.
	g := c.Group
	if c.stable.Epoch == g.Epoch && c.stable.Ends() {
		g = c.stable.Next
	}
	var fresh []Stable
	for i := range m.Stable {
		s := &m.Stable[i]
		if s.Epoch < g.Epoch || s.Seq <= c.stable.Seq {
			continue
		}
		if s.Epoch != g.Epoch || !g.Allows(s.Checkpoint) || !c.SignedBy(g, CheckpointStatement(c.cfg.Domain, s.Checkpoint, s.History), s.Signatures) {
			break
		}
		fresh = append(fresh, *s)
		if !s.Ends() {
			break
		}
		g = s.Next
	}
	epoch := c.Group.Epoch
	for i := range fresh {
		if fresh[i].Epoch != c.Group.Epoch {
			// The end of the epoch before is stable and not applied here: there is more to fetch than this.
			c.enter()
		}
		c.adopt(fresh[i])
	}
	if c.Group.Epoch != epoch && c.applied < c.stable.Seq {
		c.fetch()
	}
}

// fetch gives up applying entries up to the stable checkpoint, and asks for the state there.
func (c *Core) fetch() {
	c.behind = 0
	if c.fetching == c.stable.Seq {
		return
	}
	s := c.stable
	if s.Ends() && s.Epoch == c.Group.Epoch {
		c.enter()
	}
	c.undo(c.applied)
	if c.last <= s.Seq {
		c.truncate(c.applied)
		c.last, c.tip = s.Seq, c.stableHistory()
		c.anchor(c.last, c.tip)
	}
	c.fetching, c.Out.Fetch = s.Seq, s.certificate().FetchBy(c.ID)
	c.collect()
}

func (c *Core) fetched(in bft.Fetched) {
	seq := in.Seq
	if seq != c.fetching {
		return
	}
	c.fetching, c.applied, c.executed, c.closed = 0, seq, seq, false
	c.final = max(c.final, seq)
	c.Suspect.Progress()
	c.Pending.Drop(c.Oracle.Known)
	c.Pending.Forget(in.Past)
	c.here = max(c.here, seq)
	c.recheck()
	c.collect()
	for tx, at := range c.places {
		if at <= seq {
			delete(c.places, tx)
		}
	}
	if c.applied < c.stable.Seq {
		c.behind = c.Now + c.cfg.Resend
	}
	c.advance()
}
