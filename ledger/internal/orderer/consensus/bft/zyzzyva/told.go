package zyzzyva

import "github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"

// told is what a member says is final.
type told struct {
	seq     uint64
	history bft.Digest
}

// walk goes back from a history that is final, entry by entry, to what is applied here.
type walk struct {
	top     told
	seq     uint64     // the next entry to ask for
	history bft.Digest // after it
	entries map[uint64]*bft.Entry
}

// hear believes f+1 replicas that say what is final: one of them is correct. It brings on one who has left the view in
// which the others go on, where a liar makes up their quorum, and one who is still in a view that too many have left to
// settle anything there.
func (c *Core) hear(from bft.ID, m *Status) {
	c.told[c.Group.Index(from)] = told{m.Applied, m.Final}
	if c.Closed || c.Fetching != 0 || m.Applied <= c.final || m.Applied > c.highest() {
		return
	}
	equal := 0
	for _, t := range c.told {
		if t.seq == m.Applied && t.history == m.Final {
			equal++
		}
	}
	if equal < c.Weak() {
		return
	}
	if history, known := c.historyAt(m.Applied); known && m.Applied <= c.Last && history == m.Final {
		c.believe(m.Applied)
		return
	}
	if c.Active {
		return // it has promised to execute no other history in this view
	}
	// What was final stays so: a walk goes on, though more has become final since.
	if top := (told{m.Applied, m.Final}); c.walk == nil || c.walk.top.seq <= c.final {
		c.walk = &walk{top: top, seq: top.seq, history: top.history, entries: map[uint64]*bft.Entry{}}
	}
	c.goBack(from)
}

func (c *Core) onAsk(from bft.ID, m *Ask) {
	s := c.slots[m.Seq]
	before, known := c.historyAt(m.Seq - 1)
	if m.Epoch != c.Group.Epoch || m.Seq == 0 || !known || s == nil || s.entry == nil || s.history != m.History {
		return
	}
	if c.Ration.Take(from, c.Now, s.entry.Size()) {
		c.Send(from, &Tell{Epoch: m.Epoch, Seq: m.Seq, Before: before, Entry: s.entry})
	}
}

func (c *Core) onTell(from bft.ID, m *Tell) {
	w := c.walk
	if w == nil || c.Active || c.Closed || c.Fetching != 0 {
		return
	}
	if m.Epoch != c.Group.Epoch || m.Seq != w.seq || Chain(m.Before, m.Entry.Digest()) != w.history {
		return
	}
	w.entries[w.seq] = m.Entry
	w.seq, w.history = w.seq-1, m.Before
	c.goBack(from)
}

// goBack asks for the next entry. The walk ends at what is applied here, which a fetched checkpoint may bring nearer: the
// others have dropped the entries up to there.
func (c *Core) goBack(from bft.ID) {
	w := c.walk
	if w.seq > c.Applied {
		c.Send(from, &Ask{Epoch: c.Group.Epoch, Seq: w.seq, History: w.history})
		return
	}
	c.walk = nil
	if w.top.seq > c.final {
		c.arrive(w)
	}
}

// arrive goes on from what is applied here with the entries of a walk.
func (c *Core) arrive(w *walk) {
	seq, history := w.seq, w.history
	for ; seq < c.Applied; seq++ {
		history = Chain(history, w.entries[seq+1].Digest())
	}
	if applied, known := c.historyAt(seq); !known || applied != history {
		return
	}
	// What this replica has accepted stays as far as it is final, and with it the certificate that the replica has told of.
	for ; seq < w.top.seq && seq < c.Last; seq++ {
		next := Chain(history, w.entries[seq+1].Digest())
		if s := c.slots[seq+1]; s == nil || s.entry == nil || s.history != next {
			break
		}
		history = next
	}
	if seq < w.top.seq {
		c.astray(seq)
	}
	for seq++; seq <= w.top.seq; seq++ {
		e := w.entries[seq]
		s := &slot{digest: e.Digest(), history: Chain(c.tip, e.Digest()), entry: e}
		c.slots[seq], c.Last, c.tip = s, seq, s.history
		c.Persist(&AcceptRecord{Epoch: c.Group.Epoch, Seq: seq, History: s.history, Entry: e})
		c.note(seq, s)
	}
	c.believe(w.top.seq)
}
