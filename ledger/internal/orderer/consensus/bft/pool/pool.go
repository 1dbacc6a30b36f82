// Package pool keeps the transactions that wait at a replica to be ordered.
package pool

import (
	"container/list"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Relayed is how many transactions one replica hands to others at a time.
const Relayed = 32

// Marks is how many marks may wait per replica that has brought them. Nobody signs a mark, so a liar could bring them
// without end. An honest replica brings one for the open block, may have a late one, and hands the leader another's.
const Marks = 3

// Limits bound a pool and the entries that are made of it.
type Limits struct {
	ID         bft.ID // whose pool it is
	BatchTxs   int    // of an entry
	BatchBytes int    // of an entry, unless it holds a single transaction
	Txs        int    // that may wait per replica that has brought them
	Bytes      int    // how large these may be
}

// Pool has the transactions that wait, oldest first. Each was allowed when it came. Under a configuration that came into
// force since it is checked again before it is used, not at once: a leader may have so many that its view would end
// meanwhile.
type Pool struct {
	limits Limits
	oracle bft.Oracle
	items  *list.List // of *Item
	byID   map[bft.Digest]*list.Element
	shelf  *list.List // of *Item: those that this leader has not proposed in this view
	own    *list.List // of *Item: those of this replica's clients, by RelayAt
	used   map[bft.ID]*used

	configs uint64        // that have come into force
	refused []bft.Refusal // that nobody has been told of
}

// Item is a transaction that waits.
type Item struct {
	Tx      []byte
	Digest  bft.Digest
	Config  bool
	From    bft.ID        // the replica that has brought it
	Since   bft.Time      // when it came
	RelayAt bft.Time      // when it is brought to all replicas, where its client has handed it to this one
	waits   *list.Element // in shelf; nil: it is proposed
	mine    *list.Element // in own
	allowed uint64        // the pool's configs when it was checked last
	mark    bool
}

// used is what a replica takes of the room.
type used struct{ txs, marks, bytes int }

// New makes an empty pool.
func New(limits Limits, oracle bft.Oracle) *Pool {
	return &Pool{
		limits: limits, oracle: oracle, items: list.New(), shelf: list.New(), own: list.New(),
		byID: map[bft.Digest]*list.Element{}, used: map[bft.ID]*used{},
	}
}

// Len is how many transactions wait.
func (p *Pool) Len() int { return p.items.Len() }

// Has reports whether the transaction waits.
func (p *Pool) Has(tx bft.Digest) bool { return p.byID[tx] != nil }

// Add takes a transaction in the name of the replica that has brought it. A replica that floods fills its own room only.
func (p *Pool) Add(it *Item) bool {
	u := p.used[it.From]
	if u == nil {
		u = &used{}
		p.used[it.From] = u
	}
	it.mark = p.oracle.Mark(it.Tx)
	if u.txs >= p.limits.Txs || u.txs > 0 && u.bytes+len(it.Tx) > p.limits.Bytes || it.mark && u.marks == Marks {
		return false
	}
	u.txs, u.bytes = u.txs+1, u.bytes+len(it.Tx)
	if it.mark {
		u.marks++
	}
	it.allowed = p.configs
	it.waits = p.shelf.PushBack(it)
	if it.From == p.limits.ID {
		it.mine = p.own.PushBack(it)
	}
	p.byID[it.Digest] = p.items.PushBack(it)
	return true
}

// Adopt counts a transaction that waits among those of this replica's clients, and reports whether it did not before.
// Another replica may have brought it first, perhaps the leader, which does not propose it and has told nobody else.
func (p *Pool) Adopt(tx bft.Digest, relayAt bft.Time) bool {
	it := p.byID[tx].Value.(*Item)
	if it.mine != nil {
		return false
	}
	it.RelayAt = relayAt
	it.mine = p.own.PushBack(it)
	return true
}

func (p *Pool) remove(at *list.Element) {
	it := at.Value.(*Item)
	u := p.used[it.From]
	u.txs, u.bytes = u.txs-1, u.bytes-len(it.Tx)
	if it.mark {
		u.marks--
	}
	if u.txs == 0 {
		delete(p.used, it.From)
	}
	if it.waits != nil {
		p.shelf.Remove(it.waits)
	}
	if it.mine != nil {
		p.own.Remove(it.mine)
	}
	p.items.Remove(at)
	delete(p.byID, it.Digest)
}

// each calls f for the transactions of an entry that wait here.
func (p *Pool) each(e *bft.Entry, f func(*list.Element)) {
	if len(p.byID) == 0 {
		return
	}
	for _, id := range e.IDs() {
		if at := p.byID[id]; at != nil {
			f(at)
		}
	}
}

// Proposed notes that an entry of this view has these transactions.
func (p *Pool) Proposed(e *bft.Entry) {
	p.each(e, func(at *list.Element) {
		if it := at.Value.(*Item); it.waits != nil {
			p.shelf.Remove(it.waits)
			it.waits = nil
		}
	})
}

// Shelve has this view propose anew what waits of an entry: another one is decided in its place.
func (p *Pool) Shelve(e *bft.Entry) {
	p.each(e, func(at *list.Element) {
		if it := at.Value.(*Item); it.waits == nil {
			it.waits = p.shelf.PushBack(it)
		}
	})
}

// Ordered forgets what is ordered.
func (p *Pool) Ordered(e *bft.Entry) { p.each(e, p.remove) }

// Reshelve begins a view, in which nothing is proposed yet.
func (p *Pool) Reshelve() {
	p.shelf.Init()
	for at := p.items.Front(); at != nil; at = at.Next() {
		it := at.Value.(*Item)
		it.waits = p.shelf.PushBack(it)
	}
}

// Drop forgets what the state has, after it was fetched.
func (p *Pool) Drop(known func(bft.Digest) bool) {
	for at := p.items.Front(); at != nil; {
		next := at.Next()
		if known(at.Value.(*Item).Digest) {
			p.remove(at)
		}
		at = next
	}
}

// Forget drops transactions that need not be ordered.
func (p *Pool) Forget(txs []bft.Digest) {
	for _, id := range txs {
		if at := p.byID[id]; at != nil {
			p.remove(at)
		}
	}
}

// Limit has entries hold so many transactions from now on, and so many bytes.
func (p *Pool) Limit(txs, bytes int) { p.limits.BatchTxs, p.limits.BatchBytes = txs, bytes }

// Recheck has what waits checked again: another configuration is in force.
func (p *Pool) Recheck() { p.configs++ }

// holds reports whether the configuration in force allows the item, and refuses it otherwise.
func (p *Pool) holds(it *Item) bool {
	if it.allowed == p.configs {
		return true
	}
	if _, ok := p.oracle.Check(it.Tx); !ok {
		p.refused = append(p.refused, bft.Refusal{Tx: it.Digest, Reason: bft.ErrOutdated})
		p.remove(p.byID[it.Digest])
		return false
	}
	it.allowed = p.configs
	return true
}

// Refused names what was refused since it was asked last.
func (p *Pool) Refused() []bft.Refusal {
	refused := p.refused
	p.refused = nil
	return refused
}

// Batch is the next entry; nil: nothing waits, or only what comes after too many that are refused. A second mark waits
// for another entry, and holds up nothing behind it.
func (p *Pool) Batch() *bft.Entry {
	e := &bft.Entry{}
	size, marked, refused := 0, false, 0
	for at := p.shelf.Front(); at != nil && len(e.Txs)+refused < p.limits.BatchTxs; {
		it := at.Value.(*Item)
		here := at
		at = at.Next()
		if p.oracle.Known(it.Digest) {
			p.remove(p.byID[it.Digest])
			continue
		}
		if !p.holds(it) {
			refused++
			continue
		}
		if it.mark && marked {
			continue
		}
		if len(e.Txs) > 0 && (it.Config || size+len(it.Tx) > p.limits.BatchBytes) {
			break
		}
		marked = marked || it.mark
		p.shelf.Remove(here)
		it.waits = nil
		e.Add(it.Tx, it.Digest)
		e.Config, size = it.Config, size+len(it.Tx)
		if it.Config {
			break
		}
	}
	if len(e.Txs) == 0 {
		return nil
	}
	return e
}

// Ripe is when what is shelved may be proposed: marks by themselves wait so long for a transaction, whose entry takes one of
// them along.
func (p *Pool) Ripe(wait bft.Time) (at bft.Time) {
	for e := p.shelf.Front(); e != nil; e = e.Next() {
		it := e.Value.(*Item)
		if !it.mark {
			return 0
		}
		if e == p.shelf.Front() {
			at = it.Since + wait
		}
	}
	return at
}

// Shelved is how many transactions are not proposed in this view, and the oldest of them.
func (p *Pool) Shelved() (count int, oldest *Item) {
	if at := p.shelf.Front(); at != nil {
		oldest = at.Value.(*Item)
	}
	return p.shelf.Len(), oldest
}

// Oldest is the transaction that waits longest; nil: none waits. Where many before it are refused it is checked the next
// time: nobody is suspected for one that is the oldest since now.
func (p *Pool) Oldest() *Item {
	for refused := 0; ; refused++ {
		at := p.items.Front()
		if at == nil {
			return nil
		}
		if it := at.Value.(*Item); refused == Relayed || p.holds(it) {
			return it
		}
	}
}

// RelayAt is when the first of this replica's clients' transactions is to be brought to all; 0: there is none.
func (p *Pool) RelayAt() bft.Time {
	if at := p.own.Front(); at != nil {
		return at.Value.(*Item).RelayAt
	}
	return 0
}

// Relay is what is to be brought to all replicas now. It comes again after that long. So each client hears in time that its
// transaction is refused, whatever waits before it.
func (p *Pool) Relay(now, again bft.Time) (txs [][]byte) {
	size := 0
	at := p.own.Front()
	for looked := 0; at != nil && looked < Relayed; at, looked = p.own.Front(), looked+1 {
		it := at.Value.(*Item)
		if it.RelayAt > now || len(txs) > 0 && size+len(it.Tx) > p.limits.BatchBytes {
			break
		}
		if !p.holds(it) {
			continue
		}
		txs, size = append(txs, it.Tx), size+len(it.Tx)
		it.RelayAt = now + again
		p.own.MoveToBack(at)
	}
	return txs
}

// Own is all that this replica's clients wait for, in parts that one message may carry.
func (p *Pool) Own() (parts [][][]byte) {
	var txs [][]byte
	size := 0
	for at := p.own.Front(); at != nil; at = at.Next() {
		it := at.Value.(*Item)
		if len(txs) == Relayed || len(txs) > 0 && size+len(it.Tx) > p.limits.BatchBytes {
			parts = append(parts, txs)
			txs, size = nil, 0
		}
		txs, size = append(txs, it.Tx), size+len(it.Tx)
	}
	if len(txs) > 0 {
		parts = append(parts, txs)
	}
	return parts
}
