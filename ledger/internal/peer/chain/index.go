package chain

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"

	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
)

// maxWaiters bounds the calls that wait for a commit; what may call is bounded below it.
const maxWaiters = 1 << 17

// Errors of Status.
var (
	ErrTooManyWaiters = errors.New("too many calls wait for a commit")
	ErrStopped        = errors.New("the peer is stopping")
)

// Status is a committed transaction's place and verdict.
type Status struct {
	Code     Code
	Position Position
}

// place is a Status in 16 bytes.
type place struct {
	block uint64
	tx    uint32
	code  uint8
}

func (p place) status() Status {
	return Status{Code: Code(p.code), Position: Position{p.block, uint64(p.tx)}}
}

// ofBlock reports whether that is the place of a whole block, not of a transaction.
func (s Status) ofBlock() bool { return s.Position.Tx == txids.WholeBlock }

// index finds transactions by id, and blocks by their hash. Stage 2 enters them; readers see them
// only when they are durable. Those of older blocks are on disk.
type index struct {
	old *txids.Store // nil: all are in memory

	mu      sync.Mutex
	recent  map[validate.TxKey]place
	fresh   []txids.ID // the same, in order
	refused refused    // they do not take their ids
	durable Position   // of the first transaction that is not
	// rewound are the places from which stage 2 has taken ids back, while stage 3 has not come to that: what it publishes
	// meanwhile beyond them is gone, and other transactions may have these places.
	rewound []Position
	waiting map[validate.TxKey][]chan Status
	waiters int
}

func newIndex() *index {
	return &index{recent: map[validate.TxKey]place{}, waiting: map[validate.TxKey][]chan Status{}, refused: refused{places: map[validate.TxKey]place{}}}
}

// has reports whether an id is taken. An error says that the disk could not be read.
func (x *index) has(key validate.TxKey) (bool, error) {
	x.mu.Lock()
	_, ok := x.recent[key]
	x.mu.Unlock()
	if ok {
		return true, nil
	}
	_, ok, err := x.find(key)
	return ok, err
}

// find looks on disk. It must come after a look into memory: ids go from there to here.
func (x *index) find(key validate.TxKey) (Status, bool, error) {
	if x.old == nil {
		return Status{}, false, nil
	}
	id, ok, err := x.old.Find(key)
	return place{block: id.Block, tx: id.Tx, code: id.Code}.status(), ok, err
}

func (x *index) claim(key validate.TxKey, at Position, code Code) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent[key] = place{block: at.Block, tx: uint32(at.Tx), code: uint8(code)}
	x.fresh = append(x.fresh, txids.ID{Key: key, Block: at.Block, Tx: uint32(at.Tx), Code: uint8(code)})
}

// claimBlock enters a block that is sealed, after its transactions.
func (x *index) claimBlock(hash []byte, number uint64) {
	x.claim(validate.TxKey(hash), Position{number, txids.WholeBlock}, valid)
}

// inMemory is how many ids are.
func (x *index) inMemory() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.fresh)
}

// before gives the ids in memory that are of blocks below that number.
func (x *index) before(block uint64) []txids.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.upTo(block)
	return x.fresh[:n:n]
}

func (x *index) upTo(block uint64) int {
	return sort.Search(len(x.fresh), func(i int) bool { return x.fresh[i].Block >= block })
}

// spill moves the ids of the blocks below that number from memory to disk; hash is that of the last one's header.
func (x *index) spill(block uint64, hash []byte) error {
	if block <= x.old.Blocks() {
		return nil
	}
	ids := x.before(block)
	if err := x.old.Add(block, hash, ids); err != nil {
		return err
	}
	const step = 1000 // at a time: stage 2 must not wait long
	for rest := ids; len(rest) > 0; {
		x.mu.Lock()
		for i := range rest[:min(step, len(rest))] {
			delete(x.recent, rest[i].Key)
		}
		x.mu.Unlock()
		rest = rest[min(step, len(rest)):]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh = slices.Clone(x.fresh[len(ids):]) // a copy: the rest is to be freed
	return nil
}

// rewind gives back all ids from that block on, which are in memory. None there is durable before a publish says that the
// rewinding is over.
func (x *index) rewind(block uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := Position{Block: block}
	x.rewound = append(x.rewound, at)
	x.durable = earlier(x.durable, at)
	n := x.upTo(block)
	for i := range x.fresh[n:] {
		delete(x.recent, x.fresh[n:][i].Key)
	}
	x.fresh = x.fresh[:n:n]
	x.refused.rewind(block)
}

// lookup finds a durable transaction.
func (x *index) lookup(key validate.TxKey) (Status, bool, error) {
	x.mu.Lock()
	p, ok := x.recent[key]
	durable := x.durable
	x.mu.Unlock()
	if ok {
		return p.status(), p.status().Position.Before(durable), nil
	}
	return x.find(key)
}

func earlier(a, b Position) Position {
	if b.Before(a) {
		return b
	}
	return a
}

// publish says that everything before upTo is durable and how many rewindings are over, and answers the calls that wait
// for keys.
func (x *index) publish(upTo Position, over int, keys []validate.TxKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rewound = x.rewound[over:]
	for _, at := range x.rewound {
		upTo = earlier(upTo, at)
	}
	x.durable = upTo
	if len(x.waiting) == 0 {
		return
	}
	for _, key := range keys {
		chans := x.waiting[key]
		if chans == nil {
			continue
		}
		p, ok := x.recent[key] // what is told only now is not yet on its way to disk
		if !ok {
			p, ok = x.refused.places[key]
		}
		if !ok || !p.status().Position.Before(upTo) {
			continue
		}
		s := p.status()
		delete(x.waiting, key)
		x.waiters -= len(chans)
		for _, ch := range chans {
			ch <- s // it has room for one
		}
	}
}

// wait returns when the transaction is durable, ctx ends or stop closes.
func (x *index) wait(ctx context.Context, stop <-chan struct{}, key validate.TxKey) (Status, error) {
	x.mu.Lock()
	if p, ok := x.recent[key]; ok && p.status().Position.Before(x.durable) {
		x.mu.Unlock()
		return p.status(), nil
	}
	if x.waiters >= maxWaiters {
		x.mu.Unlock()
		return Status{}, ErrTooManyWaiters
	}
	ch := make(chan Status, 1)
	x.waiting[key] = append(x.waiting[key], ch)
	x.waiters++
	x.mu.Unlock()
	// It waits from here on, so nothing falls between memory and disk.
	s, ok, err := x.find(key)
	if !ok && err == nil {
		s, ok = x.isRefused(key)
	}
	if ok || err != nil {
		x.forget(key, ch)
		return s, err
	}
	select {
	case s := <-ch:
		return s, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-stop:
		err = ErrStopped
	}
	x.forget(key, ch)
	return Status{}, err
}

func (x *index) forget(key validate.TxKey, ch chan Status) {
	x.mu.Lock()
	defer x.mu.Unlock()
	chans := x.waiting[key]
	for i := range chans {
		if chans[i] != ch {
			continue
		}
		x.waiters--
		if len(chans) == 1 {
			delete(x.waiting, key)
		} else {
			x.waiting[key] = append(chans[:i:i], chans[i+1:]...)
		}
		return
	}
}
