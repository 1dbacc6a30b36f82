package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// synced vouches for a state that is durable.
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
	c.own = append(c.own, cp)
	c.Persist(&VoteRecord{Checkpoint: cp})
	if at := c.Group.Index(c.ID); at >= 0 {
		signature := c.Oracle.Sign(CheckpointStatement(c.cfg.Domain, cp))
		c.votes.Add(at, cp.Seq, cp, signature)
		c.Broadcast(&CheckpointVote{Checkpoint: cp, Signature: signature})
		c.checkStable(cp)
	}
}

func (c *Core) onCheckpointVote(from bft.ID, m *CheckpointVote) {
	cp := m.Checkpoint
	if cp.Epoch != c.Group.Epoch || cp.Seq <= c.stable.Seq || !c.Group.Allows(cp) {
		return
	}
	if !c.Oracle.Verify(from, CheckpointStatement(c.cfg.Domain, cp), m.Signature) {
		return
	}
	c.votes.Add(c.Group.Index(from), cp.Seq, cp, m.Signature)
	c.checkStable(cp)
}

// checkStable makes a certificate where a quorum vouches for the same.
func (c *Core) checkStable(cp bft.Checkpoint) {
	signatures := c.votes.For(func(_ uint64, other bft.Checkpoint) bool { return other.Equal(cp) })
	if len(signatures) >= c.Group.Quorum() {
		c.adopt(bft.Certificate{Checkpoint: cp, Signatures: signatures})
	}
}

// adopt takes a verified certificate of this epoch.
func (c *Core) adopt(cert bft.Certificate) {
	if cert.Seq <= c.stable.Seq {
		return
	}
	for _, cp := range c.own {
		if cp.Seq == cert.Seq && !cp.Equal(cert.Checkpoint) {
			c.Fault("the state after entry %d is %s, a quorum has %s", cp.Seq, cp.State, cert.State)
			return
		}
	}
	c.stable = cert
	c.Persist(&StableRecord{Certificate: cert})
	for len(c.own) > 0 && c.own[0].Seq <= cert.Seq {
		c.own = c.own[1:]
	}
	c.collect()
	switch {
	case cert.Seq > max(c.applied, c.fetching)+c.cfg.Window:
		c.fetch() // nobody sends again what is so far behind, and what is kept here stays bounded
	case c.fetching == 0 && c.applied < cert.Seq && c.behind == 0:
		c.behind = c.Now + c.cfg.Resend // most often the entries are under way
	}
	c.enterNext()
}

// collect forgets the slots that nobody needs: they are applied here and durable at a quorum.
func (c *Core) collect() {
	for floor := c.floor(); c.settled < floor; c.settled++ {
		if len(c.slots) == 0 {
			c.settled = floor
			break
		}
		delete(c.slots, c.settled+1)
	}
	if c.applied >= c.stable.Seq {
		c.behind = 0
	}
}

// enterNext begins the next epoch once the end of this one is stable and applied.
func (c *Core) enterNext() {
	if c.closed && c.stable.Seq == c.applied && c.stable.Ends() && c.stable.Epoch == c.Group.Epoch {
		c.enter()
	}
}

// enter begins the epoch that the stable checkpoint opens. Whatever the one before has left above
// the checkpoint was never decided there, because its configuration was the last entry.
func (c *Core) enter() {
	c.ends = append(c.ends, c.stable)
	c.start, c.Group = c.stable, c.stable.Next
	c.InView, c.Active, c.base, c.next, c.closing = 0, true, c.stable.Seq, c.stable.Seq+1, 0
	c.closed, c.own, c.last = false, nil, c.stable.Seq
	clear(c.slots)
	c.settled = c.stable.Seq
	c.resetEpoch()
	c.beginSparing(c.stable.Seq)
	c.Pending.Reshelve()
	c.recheck()
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: 0, Active: true, Base: c.base})
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

// onProof takes certificates: of this epoch, then of those after it. Each but the last ends its epoch, so that nobody has
// more of them verified than there are epochs.
func (c *Core) onProof(m *Proof) {
	// Certificates of an epoch whose members' keys come with a configuration that is still to be fetched cannot be
	// verified yet: those before them count.
	g := c.Group
	if c.stable.Epoch == g.Epoch && c.stable.Ends() {
		g = c.stable.Next
	}
	var fresh []bft.Certificate
	for _, cert := range m.Certificates {
		if cert.Epoch < g.Epoch || cert.Seq <= c.stable.Seq {
			continue
		}
		if cert.Epoch != g.Epoch || !g.Allows(cert.Checkpoint) || !c.SignedBy(g, CheckpointStatement(c.cfg.Domain, cert.Checkpoint), cert.Signatures) {
			break
		}
		fresh = append(fresh, cert)
		if !cert.Ends() {
			break
		}
		g = cert.Next
	}
	epoch := c.Group.Epoch
	for _, cert := range fresh {
		if cert.Epoch != c.Group.Epoch {
			// The end of the epoch before is stable and not applied here: there is more to fetch than this.
			c.enter()
		}
		c.adopt(cert)
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
	cert := c.stable
	if cert.Ends() && cert.Epoch == c.Group.Epoch {
		c.enter()
	}
	c.fetching, c.Out.Fetch = cert.Seq, cert.FetchBy(c.ID)
	c.collect()
}

func (c *Core) fetched(in bft.Fetched) {
	seq := in.Seq
	if seq != c.fetching {
		return
	}
	c.fetching, c.applied, c.closed = 0, seq, false
	clear(c.ahead)
	c.last = max(c.last, seq)
	c.Suspect.Progress()
	c.Pending.Drop(c.Oracle.Known)
	c.Pending.Forget(in.Past)
	c.here = max(c.here, seq)
	c.recheck()
	c.collect()
	if c.applied < c.stable.Seq {
		c.behind = c.Now + c.cfg.Resend
	}
}
