package consensus

import (
	"sync"

	"github.com/qioi/qioi/ledger/internal/ops"
)

// Tally counts what waits in a queue that is kept elsewhere, at others perhaps. Any goroutine may call. The zero value is
// ready.
type Tally struct {
	mu    sync.Mutex
	waits ops.Waits
}

// Put notes that so many items wait from now on.
func (t *Tally) Put(items int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits.Put(items)
}

// Begin notes that so many of them wait no longer.
func (t *Tally) Begin(items int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits.Begin(items)
}

// Stands tells what was counted.
func (t *Tally) Stands() ops.Stood {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits.Stands()
}

// Line is a queue of a bounded number of items, which counts for how long they wait. Any goroutine may put; one takes.
type Line[T any] struct {
	items chan T
	tally Tally // tally's lock is held while an item is put, so that none is taken before it is counted
}

// NewLine makes an empty queue.
func NewLine[T any](bound int) *Line[T] { return &Line[T]{items: make(chan T, bound)} }

// Put queues an item; it is lost where there is no room.
func (l *Line[T]) Put(item T) (room bool) {
	l.tally.mu.Lock()
	defer l.tally.mu.Unlock()
	select {
	case l.items <- item:
		l.tally.waits.Put(1)
		return true
	default:
		return false
	}
}

// C gives the items, in order. Each that is received from it is told to Taken, or given to Rest.
func (l *Line[T]) C() <-chan T { return l.items }

// Taken is for an item that was received.
func (l *Line[T]) Taken() { l.tally.Begin(1) }

// Rest takes all that waits now behind items that were received, and appends it to them. None of them waits any longer: the
// clock is read once for all.
func (l *Line[T]) Rest(received []T) []T {
	for range len(l.items) { // nobody else takes any
		received = append(received, <-l.items)
	}
	if len(received) > 0 {
		l.tally.Begin(len(received))
	}
	return received
}

// Len is how many items wait.
func (l *Line[T]) Len() int { return len(l.items) }

// Stands tells what the queue has counted.
func (l *Line[T]) Stands() ops.Stood { return l.tally.Stands() }
