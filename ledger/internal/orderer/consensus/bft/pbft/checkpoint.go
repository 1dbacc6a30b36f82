package pbft

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// synced vouches for a state that is durable.
func (c *Core) synced(in bft.Synced) {
	cp, fresh := c.Durable(in)
	if !fresh {
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
	if cp.Epoch != c.Group.Epoch || cp.Seq <= c.Stable.Seq || !c.Group.Allows(cp) {
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
	if len(signatures) >= c.Quorum() {
		c.adopt(bft.Certificate{Checkpoint: cp, Signatures: signatures})
	}
}

// adopt takes a verified certificate of this epoch.
func (c *Core) adopt(cert bft.Certificate) {
	if cert.Seq <= c.Stable.Seq {
		return
	}
	for _, cp := range c.own {
		if cp.Seq == cert.Seq && !cp.Equal(cert.Checkpoint) {
			c.Fault("the state after entry %d is %s, a quorum has %s", cp.Seq, cp.State, cert.State)
			return
		}
	}
	c.Stable = cert
	c.Persist(&StableRecord{Certificate: cert})
	for len(c.own) > 0 && c.own[0].Seq <= cert.Seq {
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

// collect forgets the slots that nobody needs: they are applied here and durable at a quorum.
func (c *Core) collect() {
	for floor := c.Floor(); c.Forgotten < floor; c.Forgotten++ {
		if len(c.slots) == 0 {
			c.Forgotten = floor
			break
		}
		if s := c.slots[c.Forgotten+1]; s != nil && c.Forgotten >= c.Applied {
			c.displace(s) // what of it the state that is fetched has, Took drops
		}
		delete(c.slots, c.Forgotten+1)
	}
	if c.Applied >= c.Stable.Seq {
		c.Behind = 0
	}
}

// enterNext begins the next epoch once the end of this one is stable and applied.
func (c *Core) enterNext() {
	if c.Ended() {
		c.enter()
	}
}

// enter begins the epoch that the stable checkpoint opens. Whatever the one before has left above
// the checkpoint was never decided there, because its configuration was the last entry.
func (c *Core) enter() {
	c.Ends = append(c.Ends, c.Stable)
	c.Start, c.Group = c.Stable, c.Stable.Next
	c.InView, c.Active, c.base, c.next, c.closing = 0, true, c.Stable.Seq, c.Stable.Seq+1, 0
	c.Closed, c.own, c.Last = false, nil, c.Stable.Seq
	clear(c.slots)
	c.Forgotten = c.Stable.Seq
	c.resetEpoch()
	c.Pending.Reshelve()
	c.Recheck()
	c.beginSparing(c.Stable.Seq) // by the limits of the epoch, where they are known
	c.Persist(&ViewRecord{Epoch: c.Group.Epoch, View: 0, Active: true, Base: c.base})
	c.StatusAt = c.Now
	if c.Member() {
		c.Forward()
	}
}

// onProof takes certificates of this epoch, and of those after it.
func (c *Core) onProof(m *Proof) {
	epoch := c.Group.Epoch
	for _, cert := range c.Believable(m.Certificates, c.signedStable) {
		if cert.Epoch != c.Group.Epoch {
			// The end of the epoch before is stable and not applied here: there is more to fetch than this.
			c.enter()
		}
		c.adopt(cert)
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
	cert := c.Stable
	if cert.Ends() && cert.Epoch == c.Group.Epoch {
		c.enter()
	}
	c.Fetching, c.Out.Fetch = cert.Seq, &bft.Fetch{Certificate: cert}
	c.collect()
	c.reopen()
}

func (c *Core) fetched(in bft.Fetched) {
	if !c.Took(in) {
		return
	}
	clear(c.foreseen)
	c.Last = max(c.Last, in.Seq)
	c.collect()
	c.FetchLater(c.cfg.Resend)
}
