package zyzzyva

import (
	"math/bits"
	"slices"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// ClientConfig is how a client has its transactions ordered.
type ClientConfig struct {
	Domain string
	Group  bft.Group // at most 64 members
	// Verify reports whether a replica has signed data. Certificates alone need it: whom a response is from the link says.
	Verify func(by bft.ID, data, signature []byte) bool
	// Fast is how long the client waits for all replicas' responses before it goes on with a quorum's certificate.
	Fast bft.Time
	// Resend is after how long it asks all replicas again; it doubles up to MaxResend.
	Resend, MaxResend bft.Time
}

// Client is the client of Zyzzyva: it accepts a transaction when all replicas have the same history up to it, when a quorum
// holds a certificate that covers it, or when f+1 say that it is final. No replica alone can have it accept anything.
type Client struct {
	cfg    ClientConfig
	now    bft.Time
	out    bft.ClientEffects
	leader uint64 // the highest view that a replica has answered in

	waiting map[bft.Digest]*waiting
	places  map[position]*place // that some of what waits is at
	byTime  []bft.Digest        // as submitted
	idle    []*histories        // those that the last transaction has left in this step, for forget
	timers  bft.Time            // when the next of what waits is due
}

// waiting is a transaction that is not accepted yet.
type waiting struct {
	tx       []byte
	said     []said // each member once: what it has said of the latest view that it has answered in
	final    uint64 // who says that it is final, a bit for each member
	resendAt bft.Time
	pause    bft.Time
}

// said is who has a transaction in a history.
type said struct {
	in *histories
	by uint64 // a bit for each member
}

// NewClient makes a client.
func NewClient(cfg ClientConfig) *Client {
	return &Client{cfg: cfg, waiting: map[bft.Digest]*waiting{}, places: map[position]*place{}}
}

// Leader is who leads, as far as the client has heard.
func (c *Client) Leader() bft.ID { return c.cfg.Group.Leader(c.leader) }

// Forget has the client wait for a transaction no longer. It may be ordered all the same.
func (c *Client) Forget(tx bft.Digest) {
	if c.waiting[tx] != nil {
		c.drop(tx)
		c.forget()
	}
}

// Waiting is how many transactions are not accepted yet.
func (c *Client) Waiting() int { return len(c.waiting) }

// Step implements bft.Client.
func (c *Client) Step(now bft.Time, in bft.Input) bft.ClientEffects {
	c.now, c.out = max(now, c.now), bft.ClientEffects{}
	switch in := in.(type) {
	case bft.Submit:
		c.submit(in.Tx)
	case bft.Received:
		at := c.cfg.Group.Index(in.From)
		if at < 0 {
			break
		}
		switch m := in.Message.(type) {
		case *Response:
			c.onResponse(at, m)
		case *LocalCommit:
			c.onLocalCommit(at, m)
		}
	case bft.Tick:
	}
	if c.timers != 0 && c.now >= c.timers {
		c.passTime()
	}
	c.forget()
	c.out.Deadline = c.timers
	return c.out
}

func (c *Client) due(at bft.Time) {
	if c.timers == 0 || at < c.timers {
		c.timers = at
	}
}

// submit asks the leader, as far as the client knows who that is.
func (c *Client) submit(tx []byte) {
	digest := bft.TxDigest(tx)
	if c.waiting[digest] != nil {
		return
	}
	w := &waiting{tx: tx, pause: c.cfg.Resend, resendAt: c.now + c.cfg.Resend}
	c.waiting[digest] = w
	c.byTime = append(c.byTime, digest)
	c.due(w.resendAt)
	c.out.Send = append(c.out.Send, bft.Outgoing{To: c.cfg.Group.Leader(c.leader), Message: &bft.Request{Txs: [][]byte{tx}}})
}

func (c *Client) toAll(m bft.Message) {
	for _, id := range c.cfg.Group.Members {
		c.out.Send = append(c.out.Send, bft.Outgoing{To: id, Message: m})
	}
}

// onResponse counts what a member says of the transactions that wait. Of several views the latest counts, and of what it
// says in one the first, so that a liar has no more room than a correct member.
func (c *Client) onResponse(at int, m *Response) {
	if m.Epoch != c.cfg.Group.Epoch {
		return
	}
	var h *histories
	for _, digest := range m.Txs {
		w := c.waiting[digest]
		switch {
		case w == nil:
		case m.Final:
			w.final |= 1 << at
			if bits.OnesCount64(w.final) >= c.cfg.Group.Weak() {
				c.accept(digest, 0, bft.ByWord)
			}
		default:
			if i := w.of(at); i >= 0 && w.said[i].in.view >= m.View {
				continue
			}
			if h == nil {
				if h = c.histories(at, m); h == nil {
					return
				}
			}
			c.count(w, digest, h, at)
		}
	}
}

// count has a member say that a transaction is in a history, and in none of a view before.
func (c *Client) count(w *waiting, tx bft.Digest, h *histories, at int) {
	c.takeBack(w, tx, at)
	i := slices.IndexFunc(w.said, func(s said) bool { return s.in == h })
	if i < 0 {
		i = len(w.said)
		w.said = append(w.said, said{in: h})
		h.txs = append(h.txs, tx)
	}
	w.said[i].by |= 1 << at
	quorum := c.cfg.Group.Quorum()
	switch n := bits.OnesCount64(w.said[i].by); {
	case n >= len(c.cfg.Group.Members):
		c.accept(tx, h.seq, bft.ByAll)
	case n >= quorum && h.certAt == 0 && h.signed() >= quorum:
		h.certAt = c.now + c.cfg.Fast
		c.leader = max(c.leader, h.view)
		c.due(h.certAt)
	case h.cert != nil:
		c.checkLocals(h)
	}
}

// of is what a member has said; -1: nothing.
func (w *waiting) of(at int) int {
	return slices.IndexFunc(w.said, func(s said) bool { return s.by&(1<<at) != 0 })
}

// takeBack forgets what a member has said of a transaction.
func (c *Client) takeBack(w *waiting, tx bft.Digest, at int) {
	i := w.of(at)
	if i < 0 {
		return
	}
	if w.said[i].by &^= 1 << at; w.said[i].by == 0 {
		c.leave(w.said[i].in, tx)
		w.said = slices.Delete(w.said, i, i+1)
	}
}

func (c *Client) accept(tx bft.Digest, seq uint64, how bft.Proof) {
	c.drop(tx)
	c.out.Accepted = append(c.out.Accepted, bft.Accepted{Tx: tx, Seq: seq, How: how})
}

// drop ends the wait for a transaction.
func (c *Client) drop(tx bft.Digest) {
	for _, s := range c.waiting[tx].said {
		c.leave(s.in, tx)
	}
	delete(c.waiting, tx)
}

// passTime makes the certificates that are due, and asks again for what has waited long.
func (c *Client) passTime() {
	c.timers = 0
	byTime := c.byTime[:0]
	for _, digest := range c.byTime {
		w := c.waiting[digest]
		if w == nil {
			continue
		}
		byTime = append(byTime, digest)
		for _, s := range w.said {
			switch h := s.in; {
			case h.certAt == 0 || h.cert != nil:
			case c.now < h.certAt:
				c.due(h.certAt)
			default:
				c.certify(h)
			}
		}
		if c.now >= w.resendAt {
			c.again(w)
		}
		c.due(w.resendAt)
	}
	c.byTime = byTime
}

// again asks all replicas: those that have answered do so again, and the others see to it that the leader orders it.
func (c *Client) again(w *waiting) {
	w.pause = min(2*w.pause, c.cfg.MaxResend)
	w.resendAt = c.now + w.pause
	c.toAll(&bft.Request{Txs: [][]byte{w.tx}})
	for _, s := range w.said {
		if s.in.cert != nil {
			c.toAll(s.in.cert)
		}
	}
}
