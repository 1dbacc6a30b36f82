package chain

import (
	"context"
	"errors"
	"sync"

	"github.com/qioi/qioi/ledger/internal/peer/checkpoint"
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

// place is a Status in 16 bytes: a peer holds one for every transaction ever committed.
type place struct {
	block uint64
	tx    uint32
	code  uint8
}

// index finds transactions by id. Stage 2 enters them; they are told to others
// only when they are durable.
type index struct {
	mu      sync.Mutex
	places  map[validate.TxKey]place
	durable Position        // of the first transaction that is not
	fresh   []checkpoint.ID // those that no checkpoint holds yet, in order
	held    uint64          // how many one holds
	waiting map[validate.TxKey][]chan Status
	waiters int
}

func newIndex() *index {
	return &index{places: map[validate.TxKey]place{}, waiting: map[validate.TxKey][]chan Status{}}
}

func (x *index) has(key validate.TxKey) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.places[key]
	return ok
}

func (x *index) claim(key validate.TxKey, at Position, code Code) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places[key] = place{block: at.Block, tx: uint32(at.Tx), code: uint8(code)}
	x.fresh = append(x.fresh, checkpoint.ID{Key: key, Block: at.Block, Tx: uint32(at.Tx), Code: uint8(code)})
}

// taken is how many ids have been claimed.
func (x *index) taken() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held + uint64(len(x.fresh))
}

// since gives the ids up to the first upTo that no checkpoint holds.
func (x *index) since(upTo uint64) []checkpoint.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := upTo - x.held
	return x.fresh[:n:n]
}

// saved says that a checkpoint holds the first upTo ids.
func (x *index) saved(upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh = append([]checkpoint.ID(nil), x.fresh[upTo-x.held:]...) // a copy: the rest is to be freed
	x.held = upTo
}

// rewind gives back all ids but the first upTo, none of which a checkpoint holds.
func (x *index) rewind(upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := upTo - x.held
	for i := range x.fresh[n:] {
		delete(x.places, x.fresh[n:][i].Key)
	}
	x.fresh = x.fresh[:n:n]
}

// load fills an empty index from a checkpoint.
func (x *index) load(ids []checkpoint.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.places = make(map[validate.TxKey]place, len(ids)+len(ids)/8)
	for i := range ids {
		id := &ids[i]
		x.places[id.Key] = place{block: id.Block, tx: id.Tx, code: id.Code}
	}
	x.held = uint64(len(ids))
}

// lookup finds a durable transaction; the caller holds the lock.
func (x *index) lookup(key validate.TxKey) (Status, bool) {
	p, ok := x.places[key]
	s := Status{Code: Code(p.code), Position: Position{p.block, uint64(p.tx)}}
	return s, ok && s.Position.Before(x.durable)
}

// publish says that everything before upTo is durable and tells those who wait for keys.
func (x *index) publish(upTo Position, keys []validate.TxKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.durable = upTo
	if len(x.waiting) == 0 {
		return
	}
	for _, key := range keys {
		chans := x.waiting[key]
		if chans == nil {
			continue
		}
		s, ok := x.lookup(key)
		if !ok {
			continue
		}
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
	if s, ok := x.lookup(key); ok {
		x.mu.Unlock()
		return s, nil
	}
	if x.waiters >= maxWaiters {
		x.mu.Unlock()
		return Status{}, ErrTooManyWaiters
	}
	ch := make(chan Status, 1)
	x.waiting[key] = append(x.waiting[key], ch)
	x.waiters++
	x.mu.Unlock()
	var err error
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
