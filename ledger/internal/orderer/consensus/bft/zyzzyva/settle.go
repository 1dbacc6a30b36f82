package zyzzyva

import (
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// round is where the replicas tell each other their histories, to find out themselves what is final.
type round struct {
	votes []vote // by member, of the current view
	sent  bool   // ours
}

// vote is a member's signature of a history.
type vote struct {
	cast      bool
	seq       uint64
	history   bft.Digest
	signature []byte
}

func (c *Core) round(seq uint64) *round {
	r := c.rounds[seq]
	if r == nil {
		r = &round{votes: make([]vote, len(c.Group.Members))}
		c.rounds[seq] = r
	}
	return r
}

// settle tells the others this replica's history up to an entry. It begins at checkpoints, and where the leader asks.
func (c *Core) settle(seq uint64) {
	at := c.Group.Index(c.ID)
	s := c.slots[seq]
	if at < 0 || s == nil || seq <= c.final || !c.Active {
		return
	}
	if c.Leads() && seq == c.Last {
		c.settleAt = 0
	}
	r := c.round(seq)
	if r.sent {
		return
	}
	m := c.response(seq, s)
	r.sent = true
	r.votes[at] = vote{cast: true, seq: seq, history: m.History, signature: m.Signature}
	c.Broadcast(m)
	c.checkRound(seq)
}

func (c *Core) onResponse(from bft.ID, m *Response) {
	if m.Epoch != c.Group.Epoch || m.View != c.InView || m.Seq <= c.final || m.Seq <= c.Floor() || m.Seq > c.highest() || m.Final {
		return
	}
	at := c.Group.Index(from)
	if c.round(m.Seq).votes[at].cast {
		c.contradicts(m) // when it was cast, there may have been no order here to compare it with
		return
	}
	if !c.Oracle.Verify(from, ResponseStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.History), m.Signature) {
		return
	}
	c.rounds[m.Seq].votes[at] = vote{cast: true, seq: m.Seq, history: m.History, signature: bft.Kept(m.Signature)}
	if from == c.Leader() && m.Seq <= c.Last {
		c.settle(m.Seq)
	}
	if !c.contradicts(m) {
		c.checkRound(m.Seq)
	}
}

// contradicts reports whether a response says that the leader has signed another history than the one that this replica has of
// it. If the leader has, its view ends.
func (c *Core) contradicts(m *Response) bool {
	s := c.slots[m.Seq]
	if s == nil || !c.Active || m.Seq > c.Last || s.history == m.History || s.order == nil || len(m.Order) == 0 {
		return false
	}
	c.twoOrders(m.Seq, signed{m.History, m.Order}, signed{s.history, s.order})
	return true
}

// equal are the signatures of a round that are of this replica's history.
func (c *Core) equal(seq uint64) (signatures []bft.Signature) {
	r, s := c.rounds[seq], c.slots[seq]
	if r == nil || s == nil || seq > c.Last {
		return nil
	}
	for at, v := range r.votes {
		if v.cast && v.history == s.history {
			signatures = append(signatures, bft.Signature{By: c.Group.Members[at], Bytes: v.signature})
		}
	}
	return signatures
}

// checkRound has an entry final that all have equal histories up to. With a quorum's it waits for the others a while.
func (c *Core) checkRound(seq uint64) {
	if !c.Active || seq <= c.final || seq < c.base {
		return
	}
	signatures := c.equal(seq)
	switch n := len(signatures); {
	case n >= len(c.Group.Members):
		c.decide(seq)
	case n >= c.Quorum() && c.certAt == 0 && (c.cert.View < c.InView || c.cert.Seq < seq):
		c.certAt = c.Now + c.cfg.Fast
		if c.cfg.Fast == 0 {
			c.certify()
		}
	}
}

// certify makes a certificate of the longest history that a quorum has signed, and tells the others that it is held.
func (c *Core) certify() {
	c.certAt = 0
	if !c.Active {
		return
	}
	for seq := c.Last; seq > c.final; seq-- {
		if c.certifyAt(seq) {
			c.tellLocal()
			return
		}
	}
}

func (c *Core) certifyAt(seq uint64) bool {
	signatures := c.equal(seq)
	if seq < c.base || len(signatures) < c.Quorum() {
		return false
	}
	c.hold(Certificate{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, History: c.slots[seq].history, Signatures: signatures})
	return true
}

// hold keeps a certificate if it counts for more than the one before, durably: no view may begin without what it covers.
func (c *Core) hold(cert Certificate) {
	if !cert.newer(&c.cert) {
		return
	}
	c.cert = cert
	c.Persist(&CertificateRecord{Certificate: cert})
	if m := c.localCommit(); m != nil {
		c.locals[c.Group.Index(c.ID)] = *m
	}
}

// newer reports whether a certificate is of a later view, or a longer one of the same.
func (c *Certificate) newer(other *Certificate) bool {
	return c.View > other.View || c.View == other.View && c.Seq > other.Seq
}

// tellLocal tells the others of the certificate that this replica holds.
func (c *Core) tellLocal() {
	if m := c.localCommit(); m != nil {
		c.Broadcast(m)
		c.countLocals()
	}
}

func (c *Core) localCommit() *LocalCommit {
	if c.Group.Index(c.ID) < 0 || !c.Active || c.cert.View != c.InView || c.cert.Seq <= c.Start.Seq {
		return nil
	}
	return &LocalCommit{Epoch: c.Group.Epoch, View: c.InView, Seq: c.cert.Seq, History: c.cert.History}
}

func (c *Core) onLocalCommit(from bft.ID, m *LocalCommit) {
	if m.Epoch != c.Group.Epoch || m.Seq > c.highest() {
		return
	}
	at := c.Group.Index(from)
	if old := &c.locals[at]; m.View > old.View || m.View == old.View && m.Seq > old.Seq {
		*old = *m
		c.countLocals()
	}
}

// countLocals has final what a quorum holds certificates for in this view.
func (c *Core) countLocals() {
	if !c.Active {
		return
	}
	var held []uint64
	for i := range c.locals {
		l := &c.locals[i]
		if l.View != c.InView || l.Seq <= c.final || l.Seq > c.Last { // a checkpoint ahead may not be where this history leads
			continue
		}
		if history, known := c.historyAt(l.Seq); known && history == l.History {
			held = append(held, l.Seq)
		}
	}
	if quorum := c.Quorum(); len(held) >= quorum {
		slices.Sort(held)
		c.decide(held[len(held)-quorum])
	}
}

// decide notes that the history up to an entry was decided in this view.
func (c *Core) decide(seq uint64) {
	if seq <= c.final {
		return
	}
	c.final, c.seen = seq, seq
}

// believe notes that the history up to an entry is final: others say so, and it may have been decided in a later view.
func (c *Core) believe(seq uint64) { c.final = max(c.final, seq) }

// onCommit takes a certificate that a client has made, and tells it so.
func (c *Core) onCommit(from bft.ID, m *Commit) {
	cert := &m.Certificate
	if cert.Epoch != c.Group.Epoch || cert.View != c.InView || !c.Active || !c.Member() || cert.Start || cert.Seq > c.Last || cert.Seq <= c.base {
		return
	}
	history, known := c.historyAt(cert.Seq)
	// What a certificate that this replica holds covers needs no proof: clients repeat theirs, and each makes its own.
	covered := known && history == cert.History && c.cert.View == c.InView && !cert.newer(&c.cert)
	if !covered && !c.proven(cert) {
		return
	}
	if !known && cert.Seq > c.final {
		return
	}
	// What is forgotten here is part of this view's only history.
	if known && history != cert.History {
		c.accuse() // a quorum has another history from this leader
		return
	}
	if cert.newer(&c.cert) {
		c.hold(*cert)
		if c.Group.Index(from) >= 0 {
			c.tellLocal()
		}
		c.countLocals()
	}
	c.Send(from, &LocalCommit{Epoch: c.Group.Epoch, View: c.InView, Seq: cert.Seq, History: cert.History})
}

// proven verifies a certificate of this epoch.
func (c *Core) proven(cert *Certificate) bool {
	if cert.View == 0 && cert.Start {
		return cert.Seq == c.Start.Seq && cert.History == Beginning(c.Group.Epoch)
	}
	if cert.Start {
		return c.SignedBy(c.Group, ConfirmStatement(c.cfg.Domain, cert.Epoch, cert.View, cert.Seq, cert.History), cert.Signatures)
	}
	return c.SignedBy(c.Group, ResponseStatement(c.cfg.Domain, cert.Epoch, cert.View, cert.Seq, cert.History), cert.Signatures)
}

// digests are those of the entries after the stable checkpoint up to a sequence number.
func (c *Core) digests(last uint64) (digests []bft.Digest) {
	for seq := c.Stable.Seq + 1; seq <= last; seq++ {
		s := c.slots[seq]
		if s == nil {
			return digests
		}
		digests = append(digests, s.digest)
	}
	return digests
}

// applyFinal hands final entries to the state machine, each after the one before.
func (c *Core) applyFinal() {
	for c.Fetching == 0 && !c.Closed && c.Applied < c.final {
		if c.Outruns(c.cfg.Window) {
			c.foresee()
			return
		}
		seq := c.Applied + 1
		s := c.slots[seq]
		if s == nil || s.entry == nil {
			return // to be fetched
		}
		if c.executed >= seq {
			delete(c.ran, seq)
		}
		c.Applied, c.executed = seq, max(c.executed, seq)
		c.Suspect.Progress()
		c.Pending.Ordered(s.entry)
		for _, tx := range s.entry.IDs() {
			delete(c.places, tx)
		}
		c.Closed = s.entry.Config
		c.Out.Apply = append(c.Out.Apply, bft.Ordered{Seq: seq, Entry: s.entry, Sync: c.Closed || c.Boundary(seq, c.cfg.Interval)})
		if seq <= c.base {
			// Its clients were told of it in a view before, if at all.
			c.Out.Answer = append(c.Out.Answer, bft.Answer{Entry: s.entry, Message: &Response{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, History: s.history, Final: true}})
		}
		c.collect()
		c.enterNext()
	}
}

// foresee has nobody wait for what is final and is applied once the ledger has followed: the leader has done its part.
func (c *Core) foresee() {
	for c.Foreseen = max(c.Foreseen, c.Applied); c.Foreseen < c.final; c.Foreseen++ {
		s := c.slots[c.Foreseen+1]
		if s == nil || s.entry == nil {
			return
		}
		c.Pending.Ordered(s.entry)
	}
}

// isFinal reports whether a transaction is final.
func (c *Core) isFinal(tx bft.Digest) bool {
	at := c.places[tx]
	return at != 0 && at <= c.Foreseen || c.Oracle.Known(tx)
}
