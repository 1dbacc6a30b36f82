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
	places  map[position][]*histories // more than one: the leader lies
	byTime  []bft.Digest              // as submitted
	idle    []*histories              // of which something was accepted in this step
	timers  bft.Time                  // when the next of what waits is due
}

// position is a place in the order of a view.
type position struct{ epoch, view, seq uint64 }

// histories is what the client knows of one history.
type histories struct {
	position
	history    bft.Digest
	signatures [][]byte     // by member
	order      []byte       // the leader's
	certAt     bft.Time     // when to make a certificate; 0: too few have answered
	cert       *Commit      // that was sent
	locals     uint64       // who holds it, a bit for each member
	txs        []bft.Digest // that wait for it
}

// waiting is a transaction that is not accepted yet.
type waiting struct {
	tx       []byte
	said     []said
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
	return &Client{cfg: cfg, waiting: map[bft.Digest]*waiting{}, places: map[position][]*histories{}}
}

// Regroup has the client ask others from now on, after a configuration.
func (c *Client) Regroup(g bft.Group) {
	c.cfg.Group, c.leader = g, 0
	clear(c.places)
	for _, w := range c.waiting {
		w.said, w.final = nil, 0
	}
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
			if h == nil {
				h = c.histories(at, m)
			}
			c.count(w, digest, h, at)
		}
	}
}

// histories notes a response.
func (c *Client) histories(at int, m *Response) *histories {
	where := position{m.Epoch, m.View, m.Seq}
	for _, h := range c.places[where] {
		if h.history == m.History {
			h.signatures[at] = m.Signature
			return h
		}
	}
	h := &histories{position: where, history: m.History, order: m.Order, signatures: make([][]byte, len(c.cfg.Group.Members))}
	h.signatures[at] = m.Signature
	for _, other := range c.places[where] {
		c.twoOrders(h, other)
	}
	c.places[where] = append(c.places[where], h)
	return h
}

// count has a member say that a transaction is in a history.
func (c *Client) count(w *waiting, tx bft.Digest, h *histories, at int) {
	i := 0
	for ; i < len(w.said) && w.said[i].in != h; i++ {
	}
	if i == len(w.said) {
		w.said = append(w.said, said{in: h})
		h.txs = append(h.txs, tx)
	}
	w.said[i].by |= 1 << at
	n := bits.OnesCount64(w.said[i].by)
	switch {
	case n == len(c.cfg.Group.Members):
		c.accept(tx, h.seq, bft.ByAll)
	case n >= c.cfg.Group.Quorum() && h.certAt == 0:
		h.certAt = c.now + c.cfg.Fast
		c.leader = max(c.leader, h.view)
		c.due(h.certAt)
	case h.cert != nil:
		c.checkLocals(h)
	}
}

// twoOrders tells the replicas of a leader that has signed two histories for one place.
func (c *Client) twoOrders(one, other *histories) {
	m := &Misbehaviour{
		Epoch: one.epoch, View: one.view, Seq: one.seq,
		Histories: [2]bft.Digest{one.history, other.history}, Signatures: [2][]byte{one.order, other.order},
	}
	leader := c.cfg.Group.Leader(one.view)
	for i := range m.Histories {
		if !c.cfg.Verify(leader, OrderStatement(c.cfg.Domain, m.Epoch, m.View, m.Seq, m.Histories[i]), m.Signatures[i]) {
			return
		}
	}
	c.toAll(m)
}

// certify makes a certificate of the signatures that hold, and gives it to the replicas.
func (c *Client) certify(h *histories) {
	statement := ResponseStatement(c.cfg.Domain, h.epoch, h.view, h.seq, h.history)
	var signatures []bft.Signature
	for at, signature := range h.signatures {
		if len(signatures) == c.cfg.Group.Quorum() {
			break
		}
		if id := c.cfg.Group.Members[at]; signature != nil && c.cfg.Verify(id, statement, signature) {
			signatures = append(signatures, bft.Signature{By: id, Bytes: signature})
		}
	}
	if len(signatures) < c.cfg.Group.Quorum() {
		return
	}
	h.cert = &Commit{Certificate{Epoch: h.epoch, View: h.view, Seq: h.seq, History: h.history, Signatures: signatures}}
	c.toAll(h.cert)
}

func (c *Client) onLocalCommit(at int, m *LocalCommit) {
	for _, h := range c.places[position{m.Epoch, m.View, m.Seq}] {
		if h.history == m.History && h.cert != nil {
			h.locals |= 1 << at
			c.checkLocals(h)
			return
		}
	}
}

// checkLocals accepts what a quorum holds the certificate of, if a quorum has also said that it is there.
func (c *Client) checkLocals(h *histories) {
	quorum := c.cfg.Group.Quorum()
	if bits.OnesCount64(h.locals) < quorum {
		return
	}
	for _, tx := range slices.Clone(h.txs) {
		for _, s := range c.waiting[tx].said {
			if s.in == h && bits.OnesCount64(s.by) >= quorum {
				c.accept(tx, h.seq, bft.ByCertificate)
				break
			}
		}
	}
}

func (c *Client) accept(tx bft.Digest, seq uint64, how bft.Proof) {
	c.drop(tx)
	c.out.Accepted = append(c.out.Accepted, bft.Accepted{Tx: tx, Seq: seq, How: how})
}

// drop ends the wait for a transaction.
func (c *Client) drop(tx bft.Digest) {
	for _, s := range c.waiting[tx].said {
		s.in.txs = slices.DeleteFunc(s.in.txs, func(other bft.Digest) bool { return other == tx })
		if len(s.in.txs) == 0 {
			c.idle = append(c.idle, s.in)
		}
	}
	delete(c.waiting, tx)
}

// forget drops the histories that nothing waits for.
func (c *Client) forget() {
	for _, h := range c.idle {
		if len(h.txs) > 0 {
			continue
		}
		rest := slices.DeleteFunc(c.places[h.position], func(other *histories) bool { return other == h })
		if c.places[h.position] = rest; len(rest) == 0 {
			delete(c.places, h.position)
		}
	}
	c.idle = nil
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
