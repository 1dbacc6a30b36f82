package pbft

import (
	"math"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// slot is what a replica knows of one sequence number.
type slot struct {
	// What is accepted in the current view. Its entry may still be missing where a new view named it.
	accepted bool
	unvoted  bool // it is kept in memory alone: this replica is a spare, and has neither verified it nor voted for it
	view     uint64
	digest   bft.Digest
	entry    *bft.Entry
	since    bft.Time // when it was accepted; 0: that says nothing of how long the others take

	prepares []vote // by member, of the current view
	commits  []vote // by member, each one's latest
	told     []vote // by member: what it says is decided

	prepared      *Prepared // of the latest view
	preparedEntry *bft.Entry

	decided      bool
	decidedIn    uint64 // the view; byWord: others have said so
	decision     bft.Digest
	decidedEntry *bft.Entry

	left    *bft.Entry // what was accepted in the latest view that was left
	leftAs  bft.Digest
	fetched map[bft.Digest]*bft.Entry // for a new view that this replica is to lead
}

// byWord stands for the view of a decision that f+1 replicas have told of: it may be any one.
const byWord = math.MaxUint64

// vote is a member's.
type vote struct {
	cast       bool
	unverified bool // a spare has not looked at its signature
	view       uint64
	digest     bft.Digest
	signature  []byte
}

// body is the entry of a digest, where the slot has it.
func (s *slot) body(d bft.Digest) *bft.Entry {
	switch {
	case d == bft.NullDigest:
		return &bft.Entry{}
	case s.accepted && s.entry != nil && s.digest == d:
		return s.entry
	case s.prepared != nil && s.prepared.Digest == d:
		return s.preparedEntry
	case s.decided && s.decision == d:
		return s.decidedEntry
	case s.left != nil && s.leftAs == d:
		return s.left
	}
	return s.fetched[d]
}

// preparedIn reports whether a quorum has voted in that view.
func (s *slot) preparedIn(view uint64) bool { return s.prepared != nil && s.prepared.View == view }

// slot makes room for a sequence number; nil: it is outside of the window.
func (c *Core) slot(seq uint64) *slot {
	if seq == 0 || seq <= c.Floor() || seq > c.Stable.Seq+c.cfg.Window {
		return nil
	}
	s := c.slots[seq]
	if s == nil {
		s = &slot{prepares: make([]vote, len(c.Group.Members)), commits: make([]vote, len(c.Group.Members)), told: make([]vote, len(c.Group.Members))}
		c.slots[seq] = s
	}
	return s
}

// propose makes entries of what waits, as long as this replica leads, may have more under way, and it is time for more.
func (c *Core) propose() {
	c.proposeAt = 0
	for c.Leads() && c.closing == 0 && !c.Closed && c.Fetching == 0 && c.Configured() {
		// After a restart the slots of what is applied say no more that it is decided.
		c.next = c.undecided(max(c.next, c.base+1, c.Stable.Seq+1, c.Applied+1))
		if c.next > c.Stable.Seq+c.cfg.Window || c.next > c.Applied+c.cfg.Overlap {
			return
		}
		if wait := c.pacer.Wait(c.clock()); wait > 0 {
			if waiting, _ := c.Pending.Shelved(); waiting > 0 {
				c.proposeAt = c.Now + wait
			}
			return
		}
		if ripe := c.Pending.Ripe(c.cfg.MarkWait); ripe > c.Now {
			c.proposeAt = ripe
			return
		}
		entry := c.Pending.Batch()
		if entry == nil {
			if waiting, _ := c.Pending.Shelved(); waiting > 0 {
				c.proposeAt = c.Now
			}
			return
		}
		seq := c.next
		c.next++
		s := c.slot(seq)
		if s == nil {
			return
		}
		c.pacer.Proposed(c.clock(), c.crowds(entry) || seq > c.Applied+1)
		c.pacer.Appended(seq, c.clock())
		c.accept(seq, s, entry.Digest(), entry)
		proposal := &PrePrepare{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, Entry: entry}
		if c.cfg.ProposeAtOnce && c.pacer.Spacing() == 0 && c.begun() { // a message more costs a crowd more than a disk's time
			c.atOnce(proposal)
			c.vote(seq, s)
		} else {
			proposal.Signature = s.prepares[c.Group.Index(c.ID)].signature
			c.Broadcast(proposal)
		}
		c.checkPrepared(seq, s)
	}
}

// undecided is the first sequence number from there on that has no decision: a leader may have forgotten in a crash what it had
// proposed.
func (c *Core) undecided(seq uint64) uint64 {
	for s := c.slots[seq]; s != nil && s.decided; s = c.slots[seq] {
		seq++
	}
	return seq
}

// crowds reports whether an entry has more than one client's transaction. It has one mark at most.
func (c *Core) crowds(e *bft.Entry) bool {
	return len(e.Txs) > 2 || len(e.Txs) == 2 && !slices.ContainsFunc(e.Txs, c.Oracle.Mark)
}

// begun reports whether others have this view's beginning. It waits for the disk, and a proposal that overtakes it is dropped.
func (c *Core) begun() bool { return c.Applied > c.base || c.InView == 0 && c.base == 0 }

func (c *Core) onPrePrepare(from bft.ID, m *PrePrepare) {
	if m.Epoch != c.Group.Epoch || m.View != c.InView || !c.Active || !c.Member() || m.Seq <= c.base || m.Seq > c.follows()+2*c.cfg.Window {
		return
	}
	if c.closing != 0 && m.Seq > c.closing {
		return // a configuration is the last entry of its epoch
	}
	if from != c.Leader() {
		return
	}
	s := c.slot(m.Seq)
	if s == nil || s.accepted {
		return
	}
	still := c.keepsStill(m.Seq, m.Entry)
	if !still && !c.proper(m.Entry) {
		return
	}
	signature := bft.Kept(m.Signature)
	if len(signature) < len(m.Signature) {
		return // nobody would verify it here where this replica keeps still, and the entry holds all of the message
	}
	digest := m.Entry.Digest()
	votes := len(m.Signature) > 0 || !c.cfg.ProposeAtOnce
	if votes && !still && !c.Oracle.Verify(from, PrepareStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, digest), m.Signature) {
		return
	}
	at := c.Group.Index(from)
	if s.prepares[at].cast && s.prepares[at].digest != digest {
		return // the leader's vote is for another one
	}
	if votes {
		s.prepares[at] = vote{cast: true, unverified: still, view: m.View, digest: digest, signature: signature}
	}
	if still {
		c.keepStill(m.Seq, s, digest, m.Entry)
		return
	}
	c.accept(m.Seq, s, digest, m.Entry)
	c.vote(m.Seq, s)
	c.checkPrepared(m.Seq, s)
}

// follows is the sequence number up to which this replica's disk is known to follow: its ledger has what is there, or its log
// of votes kept up when the fetch of that state began. A vote needs no ledger, so that one who fetches for long votes
// meanwhile. The log counts only where the epoch's configuration is in force here: it says whose transactions are proper. Until
// then the ledger alone counts, so that few votes are for what nobody could check here.
func (c *Core) follows() uint64 {
	if c.Fetching == 0 || !c.Configured() {
		return c.Here
	}
	return max(c.Here, c.logged)
}

// proper reports whether a leader may propose the entry.
func (c *Core) proper(e *bft.Entry) bool {
	return e.Proper(c.Oracle, c.cfg.BatchTxs, c.cfg.BatchBytes)
}

// accept takes an entry for a sequence number in this view, durably, and signs the vote for it.
func (c *Core) accept(seq uint64, s *slot, digest bft.Digest, entry *bft.Entry) {
	c.take(seq, s, digest, entry)
	c.Persist(&AcceptRecord{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, Digest: digest, Entry: entry})
	if entry != nil {
		c.castOwn(seq, s)
	}
}

// take is accept's part that promises nothing.
func (c *Core) take(seq uint64, s *slot, digest bft.Digest, entry *bft.Entry) {
	s.accepted, s.view, s.digest, s.entry, s.since = true, c.InView, digest, entry, c.Now
	c.Last = max(c.Last, seq)
	if entry == nil {
		return
	}
	if s.decided && s.decision == digest {
		s.decidedEntry = entry
	}
	if entry.Config {
		c.closing = seq
	}
	c.Pending.Proposed(entry)
}

// castOwn is this replica's vote for what it has accepted.
func (c *Core) castOwn(seq uint64, s *slot) {
	if at := c.Group.Index(c.ID); at >= 0 {
		signature := c.Oracle.Sign(PrepareStatement(c.cfg.Domain, c.Group.Epoch, c.InView, seq, s.digest))
		s.prepares[at] = vote{cast: true, view: c.InView, digest: s.digest, signature: signature}
	}
}

// vote tells the others of this replica's vote.
func (c *Core) vote(seq uint64, s *slot) {
	if at := c.Group.Index(c.ID); at >= 0 {
		c.Broadcast(&Prepare{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, Digest: s.digest, Signature: s.prepares[at].signature})
	}
}

func (c *Core) onPrepare(from bft.ID, m *Prepare) {
	// Votes for a view whose beginning has not come yet are kept: they overtake it.
	if m.Epoch != c.Group.Epoch || m.View != c.InView {
		return
	}
	s := c.slot(m.Seq)
	if s == nil {
		return
	}
	if s.preparedIn(c.InView) {
		return // a quorum has voted: one more vote is not worth its verification
	}
	at := c.Group.Index(from)
	if s.prepares[at].cast {
		return
	}
	if !s.unvoted && !c.Oracle.Verify(from, PrepareStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.Digest), m.Signature) {
		return
	}
	s.prepares[at] = vote{cast: true, unverified: s.unvoted, view: m.View, digest: m.Digest, signature: bft.Kept(m.Signature)}
	c.checkPrepared(m.Seq, s)
}

// checkPrepared commits to what a quorum has voted for.
func (c *Core) checkPrepared(seq uint64, s *slot) {
	if !s.accepted || s.view != c.InView || s.entry == nil || s.preparedIn(c.InView) || s.unvoted {
		return
	}
	var signatures []bft.Signature
	for at, v := range s.prepares {
		if v.cast && v.digest == s.digest {
			signatures = append(signatures, bft.Signature{By: c.Group.Members[at], Bytes: v.signature})
		}
	}
	if len(signatures) < c.Quorum() {
		return
	}
	s.prepared, s.preparedEntry = &Prepared{View: c.InView, Seq: seq, Digest: s.digest, Signatures: signatures}, s.entry
	c.Persist(&PreparedRecord{Epoch: c.Group.Epoch, Prepared: *s.prepared})
	if at := c.Group.Index(c.ID); at >= 0 {
		s.commits[at] = vote{cast: true, view: c.InView, digest: s.digest}
		c.Broadcast(&Commit{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, Digest: s.digest})
	}
	c.checkDecided(seq, s)
}

// onCommit counts in any view: what a quorum has committed to is decided, whoever leads by then.
func (c *Core) onCommit(from bft.ID, m *Commit) {
	if m.Epoch != c.Group.Epoch {
		return
	}
	s := c.slot(m.Seq)
	if s == nil {
		return
	}
	at := c.Group.Index(from)
	if m.Decided {
		if !s.told[at].cast {
			s.told[at] = vote{cast: true, digest: m.Digest}
			c.checkTold(m.Seq, s, m.Digest)
		}
		return
	}
	if old := s.commits[at]; old.cast && m.View <= old.view {
		return
	}
	s.commits[at] = vote{cast: true, view: m.View, digest: m.Digest}
	c.checkDecided(m.Seq, s)
}

func (c *Core) checkDecided(seq uint64, s *slot) {
	if s.decided {
		return
	}
	for i := range s.commits {
		if !s.commits[i].cast {
			continue
		}
		votes := 0
		for j := range s.commits {
			v := &s.commits[j]
			if v.cast && v.view == s.commits[i].view && v.digest == s.commits[i].digest {
				votes++
			}
		}
		if votes >= c.Quorum() {
			c.decide(seq, s, s.commits[i].view, s.commits[i].digest)
			return
		}
	}
}

// checkTold believes f+1 replicas that say what is decided: one of them is correct. It brings on one who has
// left the view in which the others go on, where a liar has made up their quorum and now keeps still.
func (c *Core) checkTold(seq uint64, s *slot, digest bft.Digest) {
	votes := 0
	for _, v := range s.told {
		if v.cast && v.digest == digest {
			votes++
		}
	}
	if !s.decided && votes >= c.Weak() {
		c.decide(seq, s, byWord, digest)
	}
}

func (c *Core) decide(seq uint64, s *slot, view uint64, digest bft.Digest) {
	body := s.body(digest)
	c.timeDecided(s, digest)
	s.decided, s.decidedIn, s.decision, s.decidedEntry = true, view, digest, body
	c.Last = max(c.Last, seq)
	if body == nil {
		c.Want(seq, digest)
	}
}
