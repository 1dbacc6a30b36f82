package pbft

import (
	"container/list"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// pending are the transactions that wait to be ordered, oldest first.
type pending struct {
	cfg   Config
	items *list.List // of *item
	byID  map[bft.Digest]*list.Element
	shelf *list.List // of *item: those that this leader has not proposed in this view
	own   *list.List // of *item: those of this replica's clients, by relayAt
	used  map[bft.ID]*used
}

type item struct {
	tx      []byte
	digest  bft.Digest
	config  bool
	from    bft.ID
	relayAt bft.Time
	waits   *list.Element // in shelf; nil: it is proposed
	mine    *list.Element // in own
}

// used is what a replica takes of the room.
type used struct{ txs, bytes int }

func (p *pending) init(cfg Config) {
	p.cfg, p.items, p.shelf, p.own = cfg, list.New(), list.New(), list.New()
	p.byID, p.used = map[bft.Digest]*list.Element{}, map[bft.ID]*used{}
}

func (p *pending) len() int { return p.items.Len() }

// add takes a transaction in the name of the replica that has brought it. A replica that floods fills its own room only.
func (p *pending) add(it *item) bool {
	u := p.used[it.from]
	if u == nil {
		u = &used{}
		p.used[it.from] = u
	}
	if u.txs >= p.cfg.Pending || u.txs > 0 && u.bytes+len(it.tx) > p.cfg.PendingBytes {
		return false
	}
	u.txs, u.bytes = u.txs+1, u.bytes+len(it.tx)
	it.waits = p.shelf.PushBack(it)
	if it.from == p.cfg.ID {
		it.mine = p.own.PushBack(it)
	}
	p.byID[it.digest] = p.items.PushBack(it)
	return true
}

func (p *pending) remove(at *list.Element) {
	it := at.Value.(*item)
	u := p.used[it.from]
	u.txs, u.bytes = u.txs-1, u.bytes-len(it.tx)
	if u.txs == 0 {
		delete(p.used, it.from)
	}
	if it.waits != nil {
		p.shelf.Remove(it.waits)
	}
	if it.mine != nil {
		p.own.Remove(it.mine)
	}
	p.items.Remove(at)
	delete(p.byID, it.digest)
}

// each calls f for the transactions of an entry that wait here.
func (p *pending) each(e *bft.Entry, f func(*list.Element)) {
	if len(p.byID) == 0 {
		return
	}
	for _, tx := range e.Txs {
		if at := p.byID[bft.TxDigest(tx)]; at != nil {
			f(at)
		}
	}
}

// proposed notes that an entry of this view has these transactions.
func (p *pending) proposed(e *bft.Entry) {
	p.each(e, func(at *list.Element) {
		if it := at.Value.(*item); it.waits != nil {
			p.shelf.Remove(it.waits)
			it.waits = nil
		}
	})
}

// ordered forgets what is ordered.
func (p *pending) ordered(e *bft.Entry) { p.each(e, p.remove) }

// reshelve begins a view, in which nothing is proposed yet.
func (p *pending) reshelve() {
	p.shelf.Init()
	for at := p.items.Front(); at != nil; at = at.Next() {
		it := at.Value.(*item)
		it.waits = p.shelf.PushBack(it)
	}
}

// drop forgets what the state has, after it was fetched.
func (p *pending) drop(known func(bft.Digest) bool) {
	for at := p.items.Front(); at != nil; {
		next := at.Next()
		if known(at.Value.(*item).digest) {
			p.remove(at)
		}
		at = next
	}
}

// batch is the next entry; nil: nothing waits.
func (p *pending) batch(oracle bft.Oracle) *bft.Entry {
	e := &bft.Entry{}
	size := 0
	for at := p.shelf.Front(); at != nil && len(e.Txs) < p.cfg.BatchTxs; at = p.shelf.Front() {
		it := at.Value.(*item)
		if oracle.Known(it.digest) {
			p.remove(p.byID[it.digest])
			continue
		}
		if len(e.Txs) > 0 && (it.config || size+len(it.tx) > p.cfg.BatchBytes) {
			break
		}
		p.shelf.Remove(at)
		it.waits = nil
		e.Txs, e.Config, size = append(e.Txs, it.tx), it.config, size+len(it.tx)
		if it.config {
			break
		}
	}
	if len(e.Txs) == 0 {
		return nil
	}
	return e
}

// oldest is the transaction that waits longest.
func (p *pending) oldest() *item {
	if at := p.items.Front(); at != nil {
		return at.Value.(*item)
	}
	return nil
}

// submit takes a client's transaction, and brings it to the leader.
func (c *Core) submit(tx []byte) {
	digest := bft.TxDigest(tx)
	config, ok := c.oracle.Check(tx)
	switch {
	case !ok:
		c.out.Refused = append(c.out.Refused, bft.Refusal{Tx: digest, Reason: ErrInvalid})
	case c.pending.byID[digest] != nil || c.oracle.Known(digest):
	case !c.pending.add(&item{tx: tx, digest: digest, config: config, from: c.cfg.ID, relayAt: c.now + c.cfg.Timeout/2}):
		c.out.Refused = append(c.out.Refused, bft.Refusal{Tx: digest, Reason: bft.ErrOverload})
	case !c.leads():
		c.send(c.group.Leader(c.view), &Request{Txs: [][]byte{tx}})
	}
}

// onRequest takes what another replica's client has handed to it. Each replica that has it waits for
// it, so that a leader which leaves it out is given up.
func (c *Core) onRequest(from bft.ID, m *Request) {
	if len(m.Txs) > relayed {
		return
	}
	for _, tx := range m.Txs {
		digest := bft.TxDigest(tx)
		if c.pending.byID[digest] != nil || c.oracle.Known(digest) {
			continue
		}
		if config, ok := c.oracle.Check(tx); ok {
			c.pending.add(&item{tx: tx, digest: digest, config: config, from: from})
		}
	}
}

// relayed is how many transactions go to all replicas at a time.
const relayed = 32

// relay brings to all replicas what a client has handed to this one and the leader takes long for.
func (c *Core) relay() {
	var txs [][]byte
	size := 0
	for at := c.pending.own.Front(); at != nil && len(txs) < relayed; at = c.pending.own.Front() {
		it := at.Value.(*item)
		if it.relayAt > c.now || len(txs) > 0 && size+len(it.tx) > c.cfg.BatchBytes {
			break
		}
		txs, size = append(txs, it.tx), size+len(it.tx)
		it.relayAt = c.now + c.cfg.Timeout/2
		c.pending.own.MoveToBack(at)
	}
	if len(txs) > 0 {
		c.broadcast(&Request{Txs: txs})
	}
}

// forward brings to a new leader all that this replica's clients wait for.
func (c *Core) forward() {
	if c.leads() {
		return
	}
	var txs [][]byte
	size := 0
	for at := c.pending.own.Front(); at != nil; at = at.Next() {
		it := at.Value.(*item)
		if len(txs) == relayed || len(txs) > 0 && size+len(it.tx) > c.cfg.BatchBytes {
			c.send(c.group.Leader(c.view), &Request{Txs: txs})
			txs, size = nil, 0
		}
		txs, size = append(txs, it.tx), size+len(it.tx)
	}
	if len(txs) > 0 {
		c.send(c.group.Leader(c.view), &Request{Txs: txs})
	}
}
