package replica

import (
	"sync"

	"github.com/qioi/qioi/ledger/internal/ops"
)

// queue hands things from one goroutine to another, which takes all that wait. What bounds it is the protocol: its window, and what it gives who asks.
type queue[T any] struct {
	mu     sync.Mutex
	filled *sync.Cond
	items  []T
	closed bool
	waits  ops.Waits // waits has an item until it is begun, however long it has been taken
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *queue[T]) put(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.waits.Put(1)
	q.mu.Unlock()
	q.filled.Signal()
}

// take waits for items; none: the queue is closed, and all that was put before has been taken.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	items := q.items
	q.items = nil
	return items
}

func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.filled.Broadcast()
}

// begin notes that the work on items that were taken begins.
func (q *queue[T]) begin(items []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits.Begin(len(items))
}

// stands tells what the queue has counted. Any goroutine may ask.
func (q *queue[T]) stands() ops.Stood {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waits.Stands()
}
