package zyzzyva

import (
	"maps"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// slot is one entry of the history that a replica has accepted.
type slot struct {
	digest  bft.Digest
	history bft.Digest // after it
	entry   *bft.Entry // nil: it is known that the history comes here, and no more
	order   []byte     // the leader's signature in this view; none: the view began with it
	own     []byte     // this replica's signature of the history in this view, once it was needed
}

// unsigned is a slot for another view: what was signed for it in the one before does not count there.
func (s *slot) unsigned() *slot { return &slot{digest: s.digest, history: s.history, entry: s.entry} }

// stableHistory is the history up to the stable checkpoint. Each epoch begins a new one.
func (c *Core) stableHistory() bft.Digest { return historyOf(&c.Stable, c.Start.Seq, c.Group.Epoch) }

func historyOf(s *Stable, start, epoch uint64) bft.Digest {
	if s.Seq == start {
		return Beginning(epoch)
	}
	return s.History
}

// historyAt is the accepted history up to a sequence number, where it is known.
func (c *Core) historyAt(seq uint64) (history bft.Digest, known bool) {
	if seq == c.Last {
		return c.tip, true
	}
	if s := c.slots[seq]; s != nil && seq < c.Last {
		return s.history, true
	}
	if seq == c.Stable.Seq {
		return c.stableHistory(), true
	}
	return history, false
}

// highest is the last sequence number that may be under way.
func (c *Core) highest() uint64 { return c.Stable.Seq + c.cfg.Window }

// propose orders what waits, as long as this replica leads and may have more under way.
func (c *Core) propose() {
	c.batchAt = 0
	for c.Leads() && c.closing == 0 && !c.Closed && c.Fetching == 0 && c.Last >= c.Stable.Seq && c.Configured() {
		seq := c.Last + 1
		if seq > c.Stable.Seq+c.cfg.Window || c.cfg.Overlap > 0 && seq > c.Applied+c.cfg.Overlap {
			return
		}
		count, oldest := c.Pending.Shelved()
		if count == 0 {
			return
		}
		if c.cfg.BatchWait > 0 && count < c.cfg.BatchTxs && c.Now < oldest.Since+c.cfg.BatchWait {
			c.batchAt = oldest.Since + c.cfg.BatchWait
			return
		}
		entry := c.Pending.Batch()
		if entry == nil {
			if waiting, _ := c.Pending.Shelved(); waiting > 0 {
				c.batchAt = c.Now
			}
			return
		}
		m := &Order{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, History: Chain(c.tip, entry.Digest()), Entry: entry}
		m.Signature = c.Oracle.Sign(OrderStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.History))
		c.Broadcast(m)
		c.accept(m)
	}
}

// onOrder takes an order from whoever has it: its history is the leader's by the signature, and its entry is what that history
// goes on with. Of what another replica sends that can be told for the next entry alone: it may have put an entry of its own in
// the place of the leader's, for which nobody is to blame the leader.
func (c *Core) onOrder(from bft.ID, m *Order) {
	if m.Epoch != c.Group.Epoch || m.View != c.InView || !c.Member() || m.Seq > c.highest() || c.Closed {
		return
	}
	if !c.Active && m.Seq <= c.Stable.Seq {
		return // the view begins after it
	}
	leader := c.Leader()
	statement := OrderStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.History)
	switch {
	case c.Active && m.Seq <= c.Last:
		s := c.slots[m.Seq]
		if s != nil && s.order != nil && s.history != m.History && c.Oracle.Verify(leader, statement, m.Signature) {
			c.twoOrders(m.Seq, signed{s.history, s.order}, signed{m.History, m.Signature})
		}
	case c.early[m.Seq] != nil:
		old := c.early[m.Seq]
		if old.History != m.History && c.Oracle.Verify(leader, statement, m.Signature) {
			c.twoOrders(m.Seq, signed{old.History, old.Signature}, signed{m.History, m.Signature})
		}
	case from != leader && (m.Seq != c.Last+1 || m.History != Chain(c.tip, m.Entry.Digest())):
		return
	default:
		if !c.Oracle.Verify(leader, statement, m.Signature) || !c.proper(m.Entry) {
			return
		}
		c.early[m.Seq] = m
		c.advance()
	}
}

// advance accepts what follows the history without a gap, once the epoch's configuration is in force here: it says whose
// transactions are proper.
func (c *Core) advance() {
	for c.Active && c.closing == 0 && !c.Closed && c.Configured() && c.answers() {
		m := c.early[c.Last+1]
		if m == nil {
			return
		}
		delete(c.early, m.Seq)
		if m.History != Chain(c.tip, m.Entry.Digest()) {
			c.accuse() // the leader has told others another history, or does not keep its own
			return
		}
		c.accept(m)
	}
}

// answers reports whether this replica may promise what comes after its history. One that fetches may as well: a quorum has
// signed the history that it goes on from, has all of that durably, and no view begins without it. The answer is for an order,
// which no state is needed for; what is after it is executed once the state is here. The configuration that opens the epoch has
// to be in force first, and the log of records to follow: it took all before the newest fetch, or the ledger has what is two
// windows back.
func (c *Core) answers() bool {
	return c.Fetching == 0 || c.Configured() && c.Last >= c.Fetching && c.Last < max(c.Here, c.logged)+2*c.cfg.Window
}

// recheck forgets the orders that a configuration which has come into force does not allow: they were checked under the one
// before.
func (c *Core) recheck() {
	maps.DeleteFunc(c.early, func(_ uint64, m *Order) bool { return !c.proper(m.Entry) })
}

// proper reports whether a leader may order the entry.
func (c *Core) proper(e *bft.Entry) bool {
	return e.Proper(c.Oracle, c.cfg.BatchTxs, c.cfg.BatchBytes)
}

// accept makes the history one entry longer, durably, and answers the entry's clients.
func (c *Core) accept(m *Order) {
	s := &slot{digest: m.Entry.Digest(), history: m.History, entry: m.Entry, order: m.Signature}
	c.Last, c.tip = m.Seq, m.History
	c.slots[m.Seq] = s
	c.Persist(&AcceptRecord{Epoch: c.Group.Epoch, Seq: m.Seq, History: m.History, Entry: m.Entry, Order: m.Signature})
	c.note(m.Seq, s)
	c.Out.Answer = append(c.Out.Answer, bft.Answer{Entry: s.entry, Message: c.response(m.Seq, s)})
	switch r := c.rounds[m.Seq]; {
	case s.entry.Config || c.Boundary(m.Seq, c.cfg.Interval) || c.Leads() && c.cfg.Settle == 0:
		c.settle(m.Seq)
	case r != nil && r.votes[c.Group.Index(c.Leader())].cast:
		c.settle(m.Seq)
	case c.Leads() && c.settleAt == 0:
		c.settleAt = c.Now + c.cfg.Settle
	}
	c.checkRound(m.Seq)
	c.countLocals()
	if m.Seq == c.Stable.Seq {
		c.reached()
	}
}

// note keeps in mind where the transactions of an accepted entry are.
func (c *Core) note(seq uint64, s *slot) {
	for _, tx := range s.entry.IDs() {
		c.places[tx] = seq
	}
	c.Pending.Proposed(s.entry)
	if s.entry.Config {
		c.closing = seq
	}
}

// response is what this replica says of its history.
func (c *Core) response(seq uint64, s *slot) *Response {
	if s.own == nil {
		s.own = c.Oracle.Sign(ResponseStatement(c.cfg.Domain, c.Group.Epoch, c.InView, seq, s.history))
	}
	return &Response{Epoch: c.Group.Epoch, View: c.InView, Seq: seq, History: s.history, Signature: s.own, Order: s.order}
}

// truncate forgets the history after a sequence number. The entries are kept until they are known to be of no use.
func (c *Core) truncate(last uint64) {
	for seq := last + 1; seq <= c.Last; seq++ {
		s := c.slots[seq]
		delete(c.slots, seq)
		if s == nil || s.entry == nil {
			continue
		}
		c.bodies[s.digest] = s.entry
		for _, tx := range s.entry.IDs() {
			if c.places[tx] == seq {
				delete(c.places, tx)
			}
		}
		if c.closing == seq {
			c.closing = 0
		}
	}
	if last < c.Last {
		c.tip, _ = c.historyAt(last)
		c.Last = last
	}
}

// runAhead executes the history that is accepted. What was executed and is not part of it is taken back.
func (c *Core) runAhead() {
	if c.Fetching != 0 {
		return
	}
	keep := c.executed
	for seq := c.Applied + 1; seq <= c.executed; seq++ {
		if s := c.slots[seq]; seq > c.Last || s == nil || s.history != c.ran[seq] {
			keep = seq - 1
			break
		}
	}
	if keep < c.executed {
		c.undo(keep)
	}
	for seq := c.executed + 1; seq <= c.Last && seq > c.Applied; seq++ {
		s := c.slots[seq]
		if s == nil || s.entry == nil {
			return // to be fetched
		}
		c.executed, c.ran[seq] = seq, s.history
		c.Out.Ahead = append(c.Out.Ahead, bft.Ordered{Seq: seq, Entry: s.entry})
	}
}

// undo takes back what was executed after a sequence number.
func (c *Core) undo(to uint64) {
	if to >= c.executed {
		return
	}
	for seq := to + 1; seq <= c.executed; seq++ {
		delete(c.ran, seq)
	}
	c.executed = to
	c.Out.Ahead = slices.DeleteFunc(c.Out.Ahead, func(o bft.Ordered) bool { return o.Seq > to })
	if to < c.executedBefore { // the rest nobody has been told of
		c.executedBefore = to
		c.Out.Undo = &to
	}
}

// submit takes a client's transaction, and brings it to the leader, unless it is in the history.
func (c *Core) submit(tx []byte) {
	digest := bft.TxDigest(tx)
	if c.answered(tx, digest) { // a configuration since may not allow it
		return
	}
	if !c.Admit(tx, digest, c.cfg.Timeout/2, c.isFinal) {
		return
	}
	if c.places[digest] != 0 {
		c.Pending.Proposed(alone(tx, digest))
		return
	}
	c.Bring(tx)
}

// alone is an entry with one transaction, whose name is known.
func alone(tx []byte, digest bft.Digest) *bft.Entry {
	e := &bft.Entry{}
	e.Add(tx, digest)
	return e
}

// answered tells a client again what it was told of its transaction.
func (c *Core) answered(tx []byte, digest bft.Digest) bool {
	if c.Oracle.Known(digest) {
		c.Out.Answer = append(c.Out.Answer, bft.Answer{Entry: alone(tx, digest), Message: &Response{Epoch: c.Group.Epoch, Final: true}})
		return true
	}
	at := c.places[digest]
	if s := c.slots[at]; s != nil && c.Active && at > c.base {
		c.Out.Answer = append(c.Out.Answer, bft.Answer{Entry: alone(tx, digest), Message: c.response(at, s)})
	}
	return false
}

// onRequest takes transactions that another replica's client has handed to it, or a client itself. Each replica that has
// them waits for them, so that a leader which leaves them out is given up.
func (c *Core) onRequest(from bft.ID, m *bft.Request) {
	if len(m.Txs) > pool.Relayed {
		return
	}
	if c.Group.Index(from) < 0 {
		for i := range m.Txs {
			c.submit(m.Own(i))
		}
		return
	}
	for i, tx := range m.Txs {
		digest := bft.TxDigest(tx)
		if c.Pending.Has(digest) || c.isFinal(digest) {
			continue
		}
		if config, ok := c.Oracle.Check(tx); ok && c.Pending.Add(&pool.Item{Tx: m.Own(i), Digest: digest, Config: config, From: from, Since: c.Now}) {
			if c.places[digest] != 0 {
				c.Pending.Proposed(alone(tx, digest))
			}
		}
	}
}

// reshelve begins a view: what waits is to be ordered, but for what its history has.
func (c *Core) reshelve() {
	c.Pending.Reshelve()
	for seq := c.Applied + 1; seq <= c.Last; seq++ {
		if s := c.slots[seq]; s != nil && s.entry != nil {
			c.Pending.Proposed(s.entry)
		}
	}
}
