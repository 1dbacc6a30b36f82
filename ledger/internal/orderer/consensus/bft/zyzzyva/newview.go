package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// plan is what a view begins with.
type plan struct {
	stable  Stable
	digests []bft.Digest // of the entries after it
	history bft.Digest   // after the last of them
	proof   *Certificate // that a quorum has confirmed the plan, where we have it
	held    bool         // this replica has all of the entries, durably, and has confirmed the plan
}

func newPlan(stable Stable, digests []bft.Digest, start, epoch uint64) *plan {
	p := &plan{stable: stable, digests: digests, history: historyOf(&stable, start, epoch)}
	for _, d := range digests {
		p.history = Chain(p.history, d)
	}
	return p
}

func (p *plan) last() uint64 { return p.stable.Seq + uint64(len(p.digests)) }

func (c *Core) onNewView(m *NewView) {
	if m.Epoch != c.Group.Epoch || m.View == 0 || m.View < c.InView || !c.Member() {
		return
	}
	if m.View == c.InView && (c.Active || c.planned != nil) {
		return // of a leader's two beginnings the first counts
	}
	if len(m.Changes) < c.Quorum() || len(m.Changes) > len(c.Group.Members) {
		return
	}
	seen := make([]bool, len(c.Group.Members))
	for _, change := range m.Changes {
		at := c.Group.Index(change.Replica)
		if at < 0 || seen[at] || change.Epoch != m.Epoch || change.View != m.View {
			return
		}
		seen[at] = true
	}
	if !c.Oracle.Verify(c.Group.Leader(m.View), m.Statement(c.cfg.Domain), m.Signature) {
		return
	}
	for _, change := range m.Changes {
		if !c.signedChange(change) {
			return
		}
	}
	for _, change := range m.Changes { // afterwards, so that a leader cannot have its own verified without a quorum's
		if !c.provenChange(change) {
			return
		}
	}
	c.install(m)
}

// choices follow from the view changes alone. Certificates of the latest view count, and of those the longest. After it
// comes what all but f of the view changes of the same view agree on: what all replicas had, and a client may have
// accepted by that, all correct ones among them have. Whatever was decided in a view before is in the history that the
// latest view began with, which is under each of its certificates.
func (c *Core) choices(changes []*ViewChange) (base Stable, digests []bft.Digest) {
	latest := changes[0]
	for i, m := range changes {
		if i == 0 || m.Stable.Seq > base.Seq {
			base = m.Stable
		}
		if m.Certificate.newer(&latest.Certificate) {
			latest = m
		}
	}
	history := historyOf(&base, c.Start.Seq, c.Group.Epoch)
	if latest.Certificate.Seq > base.Seq {
		if at, known := latest.historyAt(base.Seq, c.Start.Seq); known && at == history {
			digests = append(digests, latest.Digests[base.Seq-latest.Stable.Seq:latest.Certificate.Seq-latest.Stable.Seq]...)
			history = latest.Certificate.History
		}
	}
	var agree []*ViewChange
	for _, m := range changes {
		at, known := m.historyAt(base.Seq+uint64(len(digests)), c.Start.Seq)
		if known && at == history && m.Certificate.View == latest.Certificate.View {
			agree = append(agree, m)
		}
	}
	for support := len(changes) - c.Group.Faulty(); ; {
		next := base.Seq + uint64(len(digests)) + 1
		by := map[bft.Digest][]*ViewChange{}
		for _, m := range agree {
			if next <= m.last() {
				d := m.Digests[next-m.Stable.Seq-1]
				by[d] = append(by[d], m)
			}
		}
		agree = nil
		for d, with := range by { // support is more than half of a quorum: one digest has it at most
			if len(with) >= support {
				agree, digests = with, append(digests, d)
				break
			}
		}
		if agree == nil {
			return base, digests
		}
	}
}

// install takes the history that a new view begins with, once its entries are here.
func (c *Core) install(m *NewView) {
	base, digests := c.choices(m.Changes)
	if c.beginView(m.View, newPlan(base, digests, c.Start.Seq, c.Group.Epoch)) {
		c.newView = m
		c.confirm()
	}
}

// beginView leaves the views before, for one that begins as planned.
func (c *Core) beginView(view uint64, p *plan) bool {
	epoch := c.Group.Epoch
	c.turn(view)
	c.adopt(p.stable)
	if epoch != c.Group.Epoch {
		return false
	}
	c.planned, c.StatusAt = p, c.Now+c.cfg.Resend
	c.Suspect.Begin(c.Now, true)
	c.Persist(&ViewRecord{Epoch: epoch, View: view})
	return true
}

// body is the entry of a digest, where this replica has it.
func (c *Core) body(seq uint64, digest bft.Digest) *bft.Entry {
	if s := c.slots[seq]; s != nil && s.digest == digest {
		return s.entry
	}
	if e := c.early[seq]; e != nil && e.Entry.Digest() == digest {
		return e.Entry
	}
	return c.bodies[digest]
}

// confirm promises to begin the view with its history and no other one, once all of that is here. It asks for what is
// missing, again only after a while: each entry that comes has it look anew, and would have all others asked for.
func (c *Core) confirm() {
	p := c.planned
	if p == nil || p.held || !c.answers() {
		return
	}
	record := &ConfirmRecord{Epoch: c.Group.Epoch, View: c.InView, Stable: p.stable, Entries: make([]*bft.Entry, len(p.digests))}
	complete, asks := true, c.Now >= c.askAt
	for i, d := range p.digests {
		seq := p.stable.Seq + 1 + uint64(i)
		if seq <= c.Stable.Seq {
			continue // settled here
		}
		if record.Entries[i] = c.body(seq, d); record.Entries[i] == nil {
			complete = false
			if asks {
				c.Want(seq, d)
			}
		}
	}
	if !complete {
		if asks {
			c.askAt = c.Now + c.cfg.Resend/2 // before the next status, which asks too
		}
		return
	}
	record.Digests = p.digests
	p.held = true
	c.Persist(record)
	for i, e := range record.Entries {
		if e != nil {
			c.bodies[p.digests[i]] = e
		}
	}
	if at := c.Group.Index(c.ID); at >= 0 {
		c.Broadcast(c.castConfirm(at))
	}
	c.checkConfirms()
}

// castConfirm counts this replica's own confirmation.
func (c *Core) castConfirm(at int) *Confirm {
	m := c.confirmation()
	c.confirms[at] = vote{cast: true, seq: m.Seq, history: m.History, signature: m.Signature}
	return m
}

func (c *Core) confirmation() *Confirm {
	p := c.planned
	m := &Confirm{Epoch: c.Group.Epoch, View: c.InView, Seq: p.last(), History: p.history}
	m.Signature = c.Oracle.Sign(ConfirmStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.History))
	return m
}

func (c *Core) onConfirm(from bft.ID, m *Confirm) {
	at := c.Group.Index(from)
	if m.Epoch != c.Group.Epoch || m.View != c.InView || c.Active || c.confirms[at].cast {
		return
	}
	if !c.Oracle.Verify(from, ConfirmStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.History), m.Signature) {
		return
	}
	c.confirms[at] = vote{cast: true, seq: m.Seq, history: m.History, signature: m.Signature}
	c.checkConfirms()
}

// checkConfirms begins the view when a quorum has confirmed the same history.
func (c *Core) checkConfirms() {
	p := c.planned
	if p == nil || !p.held || c.Active {
		return
	}
	if p.proof != nil {
		c.activate(*p.proof)
		return
	}
	var signatures []bft.Signature
	for at, v := range c.confirms {
		if v.cast && v.seq == p.last() && v.history == p.history {
			signatures = append(signatures, bft.Signature{By: c.Group.Members[at], Bytes: v.signature})
		}
	}
	if len(signatures) >= c.Quorum() {
		c.activate(Certificate{Epoch: c.Group.Epoch, View: c.InView, Seq: p.last(), History: p.history, Start: true, Signatures: signatures})
	}
}

// activate begins the view: the replica's history is now the one that the view begins with.
func (c *Core) activate(cert Certificate) {
	p := c.planned
	if !c.replace(p) {
		return
	}
	c.Persist(&StartRecord{Certificate: cert, Final: c.final})
	c.began(p, cert)
	c.reshelve()
	c.StatusAt = c.Now + c.cfg.Resend
	c.tellLocal()
	c.collect()
	c.Forward()
	c.advance()
}

// began notes that the view has begun.
func (c *Core) began(p *plan, cert Certificate) {
	c.Active, c.base = true, p.last()
	c.begun = &Start{Stable: p.stable, Digests: p.digests, Certificate: cert}
	c.hold(cert)
}

// onStart follows a view that a quorum has begun.
func (c *Core) onStart(m *Start) {
	cert := &m.Certificate
	if cert.Epoch != c.Group.Epoch || !cert.Start || cert.View == 0 || cert.View < c.InView || cert.View == c.InView && c.Active || !c.Member() {
		return
	}
	if uint64(len(m.Digests)) > c.cfg.Window || m.Stable.Seq+uint64(len(m.Digests)) != cert.Seq {
		return
	}
	if c.planned != nil && c.planned.proof != nil && cert.View == c.InView {
		return // the replica fetches what that begins with, or knows that a later view has overtaken it
	}
	p := newPlan(m.Stable, m.Digests, c.Start.Seq, c.Group.Epoch)
	if p.history != cert.History || !c.provenStable(&m.Stable) || !c.proven(cert) {
		return
	}
	if c.beginView(cert.View, p) {
		p.proof = cert
		c.confirm()
	}
}

// replace makes the plan's history this replica's. A stable checkpoint may reach further: then the replica comes late, and
// what the view has ordered up to there is not in the plan. A plan that differs from what others say is final is that of a
// view that a later one has overtaken: this replica does not begin it.
func (c *Core) replace(p *plan) bool {
	fresh, agrees := c.plannedSlots(p)
	if !agrees {
		return false
	}
	last, tip := p.last(), p.history
	if last < c.Stable.Seq {
		last, tip = c.Stable.Seq, c.stableHistory()
	}
	if last < c.seen {
		c.Fault("entry %d is final, and view %d begins with %d: more replicas lie than the group endures", c.seen, c.InView, last)
		return false
	}
	for ; last < c.final; last++ { // it has heard how the view went on
		kept := c.slots[last+1]
		if kept == nil {
			c.Fault("entry %d is final, and this replica has lost it: a promise was not durable", last+1)
			return false
		}
		fresh[last+1], tip = kept.unsigned(), kept.history
	}
	c.closing = 0
	c.truncate(p.stable.Seq)
	c.slots, c.Last, c.tip = fresh, last, tip
	c.anchor(c.Stable.Seq, c.stableHistory())
	for seq := max(c.Applied, c.Stable.Seq) + 1; seq <= last; seq++ {
		c.note(seq, fresh[seq])
	}
	return true
}

// plannedSlots are the slots of a plan after the stable checkpoint, and those up to it that are still needed. It reports
// whether the plan agrees with what is final here.
func (c *Core) plannedSlots(p *plan) (fresh map[uint64]*slot, agrees bool) {
	fresh = map[uint64]*slot{}
	whole := max(c.Applied, c.final) >= c.Stable.Seq // what comes before the checkpoint leads there
	for seq := c.Floor(); seq <= c.Stable.Seq; seq++ {
		if s := c.slots[seq]; s != nil && (seq <= c.Applied || whole) {
			fresh[seq] = s.unsigned()
		}
	}
	history := historyOf(&p.stable, c.Start.Seq, c.Group.Epoch)
	for i, d := range p.digests {
		seq := p.stable.Seq + 1 + uint64(i)
		history = Chain(history, d)
		if old, known := c.historyAt(seq); known && old != history && (seq <= c.final || seq == c.Stable.Seq) {
			if seq <= c.seen {
				c.Fault("entry %d is final, and view %d begins with another one: more replicas lie than the group endures", seq, c.InView)
			}
			return nil, false
		}
		if seq > c.Stable.Seq {
			fresh[seq] = &slot{digest: d, history: history, entry: c.body(seq, d)}
		}
	}
	return fresh, true
}
