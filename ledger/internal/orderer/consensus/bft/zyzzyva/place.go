package zyzzyva

import (
	"math/bits"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// position is a place in the order of a view.
type position struct{ epoch, view, seq uint64 }

// place is what the members say of a position. A correct one says no more than one history there, so none is heard twice.
type place struct {
	said []*histories // by member: the first; nil: it has said none
	lied bool         // the leader has signed two of them, and the replicas were told
}

// histories is what the client knows of one history.
type histories struct {
	position
	history    bft.Digest
	signatures [][]byte     // by member; nil: it has none, or one that does not hold
	order      []byte       // the leader's, as the first member has it; nil: there is none, or it does not hold
	ordered    bool         // it holds
	certAt     bft.Time     // when to make a certificate; 0: too few have answered
	cert       *Commit      // that was sent
	locals     uint64       // who holds it, a bit for each member
	txs        []bft.Digest // that wait for it
}

// signed is how many members' signatures may hold.
func (h *histories) signed() (n int) {
	for _, signature := range h.signatures {
		if signature != nil {
			n++
		}
	}
	return n
}

// histories notes what a member says comes at a position; nil: it has said another history there.
func (c *Client) histories(at int, m *Response) *histories {
	where, n := position{m.Epoch, m.View, m.Seq}, len(c.cfg.Group.Members)
	p := c.places[where]
	if p == nil {
		p = &place{said: make([]*histories, n)}
		c.places[where] = p
	}
	same := func(h *histories) bool { return h != nil && h.history == m.History }
	if p.said[at] != nil {
		if same(p.said[at]) {
			return p.said[at]
		}
		return nil
	}
	if i := slices.IndexFunc(p.said, same); i >= 0 {
		p.said[at] = p.said[i]
	} else {
		p.said[at] = &histories{position: where, history: m.History, order: bft.Kept(m.Order), signatures: make([][]byte, n)}
	}
	p.said[at].signatures[at] = bft.Kept(m.Signature)
	c.compare(p, p.said[at])
	return p.said[at]
}

// compare tells the replicas, once, of a leader that has signed two histories for one place. It verifies none where liars
// may be alone: they would make up one place after the other.
func (c *Client) compare(p *place, h *histories) {
	members := 0
	for _, other := range p.said {
		if other != nil {
			members++
		}
	}
	if members < c.cfg.Group.Weak() {
		return
	}
	for _, other := range p.said {
		if p.lied || other == nil || other == h || len(h.order) == 0 || len(other.order) == 0 {
			continue
		}
		if p.lied = c.ordered(h) && c.ordered(other); p.lied {
			c.toAll(&Misbehaviour{
				Epoch: h.epoch, View: h.view, Seq: h.seq,
				Histories: [2]bft.Digest{h.history, other.history}, Signatures: [2][]byte{h.order, other.order},
			})
		}
	}
}

// ordered reports whether the leader has signed the history. It verifies a signature once.
func (c *Client) ordered(h *histories) bool {
	if !h.ordered && len(h.order) > 0 {
		statement := OrderStatement(c.cfg.Domain, h.epoch, h.view, h.seq, h.history)
		h.ordered = c.cfg.Verify(c.cfg.Group.Leader(h.view), statement, h.order)
		if !h.ordered {
			h.order = nil
		}
	}
	return h.ordered
}

// certify makes a certificate of the signatures that hold, and gives it to the replicas. With too few it waits for another
// member's.
func (c *Client) certify(h *histories) {
	statement := ResponseStatement(c.cfg.Domain, h.epoch, h.view, h.seq, h.history)
	var signatures []bft.Signature
	for at, signature := range h.signatures {
		if len(signatures) == c.cfg.Group.Quorum() {
			break
		}
		if signature == nil {
			continue
		}
		if id := c.cfg.Group.Members[at]; c.cfg.Verify(id, statement, signature) {
			signatures = append(signatures, bft.Signature{By: id, Bytes: signature})
		} else {
			h.signatures[at] = nil
		}
	}
	if len(signatures) < c.cfg.Group.Quorum() {
		h.certAt = 0
		return
	}
	h.cert = &Commit{Certificate{Epoch: h.epoch, View: h.view, Seq: h.seq, History: h.history, Signatures: signatures}}
	c.toAll(h.cert)
}

func (c *Client) onLocalCommit(at int, m *LocalCommit) {
	p := c.places[position{m.Epoch, m.View, m.Seq}]
	if p == nil {
		return
	}
	i := slices.IndexFunc(p.said, func(h *histories) bool { return h != nil && h.history == m.History })
	if i >= 0 && p.said[i].cert != nil {
		p.said[i].locals |= 1 << at
		c.checkLocals(p.said[i])
	}
}

// checkLocals accepts what a quorum holds the certificate of, if a quorum has also said that it is there.
func (c *Client) checkLocals(h *histories) {
	if bits.OnesCount64(h.locals) < c.cfg.Group.Quorum() {
		return
	}
	for _, tx := range slices.Clone(h.txs) {
		for _, s := range c.waiting[tx].said {
			if s.in == h && bits.OnesCount64(s.by) >= c.cfg.Group.Quorum() {
				c.accept(tx, h.seq, bft.ByCertificate)
				break
			}
		}
	}
}

// leave has a transaction wait for a history no longer.
func (c *Client) leave(h *histories, tx bft.Digest) {
	h.txs = slices.DeleteFunc(h.txs, func(other bft.Digest) bool { return other == tx })
	if len(h.txs) == 0 {
		c.idle = append(c.idle, h)
	}
}

// forget drops the places that nothing waits for. At the others each member's history stays: it is its first.
func (c *Client) forget() {
	waits := func(h *histories) bool { return h != nil && len(h.txs) > 0 }
	for _, h := range c.idle {
		if p := c.places[h.position]; p != nil && !slices.ContainsFunc(p.said, waits) {
			delete(c.places, h.position)
		}
	}
	c.idle = nil
}
