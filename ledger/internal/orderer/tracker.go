package orderer

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// tracker knows which transactions wait here to be seen in the log. A transaction
// counts as ordered when this orderer itself has applied it, whichever orderer leads.
type tracker struct {
	once    bool // copies of a transaction are ordered once
	mu      sync.Mutex
	waiting map[[sha256.Size]byte][]*waiter
}

// waiter gets one result: nil for ordered, or why not.
type waiter struct {
	key     [sha256.Size]byte
	result  chan error
	channel *channel // that it is for; nil where it was refused before that was known
	ordered bool     // it was answered because a copy was ordered, which may be another waiter's

	kind             commonpb.HeaderType
	arrived, checked time.Time
}

func newTracker(once bool) *tracker {
	return &tracker{once: once, waiting: map[[sha256.Size]byte][]*waiter{}}
}

func (t *tracker) add(tx []byte) *waiter {
	w := &waiter{key: sha256.Sum256(tx), result: make(chan error, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[w.key] = append(t.waiting[w.key], w)
	return w
}

// count is the number of transactions that wait.
func (t *tracker) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// ordered answers one waiter for each transaction, where copies are ordered each by itself, or else all.
func (t *tracker) ordered(txs [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tx := range txs {
		if len(t.waiting) == 0 {
			return // without waiters there is no need to hash
		}
		key := sha256.Sum256(tx)
		if t.once {
			t.answerAll(key, nil)
		} else {
			t.answer(key, nil)
		}
	}
}

// forget drops a waiter that has given up: a transaction may be lost without a trace, and the answer to a later copy
// belongs to the copy's waiter.
func (t *tracker) forget(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(w)
}

// settle answers the waiter whose own copy of a transaction that is: nil when it is ordered, or why it did not get into the
// log. Another copy may still be under way. Where a refused copy's waiter has had the answer to another's order, it may have
// been that one's, who would wait in vain.
func (t *tracker) settle(w *waiter, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.remove(w):
		w.result <- err
	case w.ordered && err != nil:
		t.answer(w.key, nil)
	}
}

// remove reports whether a waiter still waited.
func (t *tracker) remove(w *waiter) bool {
	all := t.waiting[w.key]
	i := slices.Index(all, w)
	switch {
	case i < 0: // it was answered meanwhile, or has given up
	case len(all) == 1:
		delete(t.waiting, w.key)
	default:
		t.waiting[w.key] = slices.Delete(all, i, i+1)
	}
	return i >= 0
}

// refuseOne answers one waiter of a transaction, where nobody says whose copy did not get into the log.
func (t *tracker) refuseOne(key [sha256.Size]byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer(key, err)
}

func (t *tracker) answer(key [sha256.Size]byte, err error) {
	all := t.waiting[key]
	if len(all) == 0 {
		return
	}
	all[0].result <- err // it has room: each waiter is answered once
	all[0].ordered = err == nil
	if len(all) == 1 {
		delete(t.waiting, key)
	} else {
		t.waiting[key] = all[1:]
	}
}

// refuse answers all waiters of a transaction.
func (t *tracker) refuse(key [sha256.Size]byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answerAll(key, err)
}

func (t *tracker) answerAll(key [sha256.Size]byte, err error) {
	for len(t.waiting[key]) > 0 {
		t.answer(key, err)
	}
}

// refuseAll answers all waiters.
func (t *tracker) refuseAll(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, all := range t.waiting {
		for _, w := range all {
			w.result <- err
		}
		delete(t.waiting, key)
	}
}
