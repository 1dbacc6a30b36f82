package simulate

import "time"

// engine is the virtual clock and what is to happen, in the order of time; of one moment, in the order of its making.
type engine struct {
	now   time.Duration
	heap  []event
	count uint64
}

type event struct {
	at     time.Duration
	number uint64
	do     func()
}

func (a event) before(b event) bool { return a.at < b.at || a.at == b.at && a.number < b.number }

func (e *engine) after(wait time.Duration, do func()) {
	e.count++
	e.heap = append(e.heap, event{e.now + wait, e.count, do})
	for i := len(e.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !e.heap[i].before(e.heap[parent]) {
			break
		}
		e.heap[i], e.heap[parent] = e.heap[parent], e.heap[i]
		i = parent
	}
}

// step lets the next thing happen; false: there is none.
func (e *engine) step() bool {
	if len(e.heap) == 0 {
		return false
	}
	next, last := e.heap[0], len(e.heap)-1
	e.heap[0], e.heap[last] = e.heap[last], event{}
	e.heap = e.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if e.heap[child].before(e.heap[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		e.heap[i], e.heap[least] = e.heap[least], e.heap[i]
		i = least
	}
	e.now = next.at
	next.do()
	return true
}

// fifo is a queue that keeps its room.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) put(item T) {
	if q.head > 1024 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	q.items = append(q.items, item)
}

func (q *fifo[T]) take() T {
	item := q.items[q.head]
	var none T
	q.items[q.head] = none
	q.head++
	return item
}

// host is the processors of a replica. Its threads take turns. With a quota it stands still, once it has used that, until
// the next period begins.
type host struct {
	engine *engine
	free   int
	speed  float64 // of a processor, where that of the micro-benchmarks is 1
	ready  fifo[*thread]
	at     *thread       // at is the thread whose job begins or ends right now; nil: no thread of this host does anything
	idle   time.Duration // idle is what it costs to begin when all threads had nothing to do
	active int           // active is how many threads have something to do

	quota, period time.Duration // quota is CPU time of a period; 0: there is none
	shift         time.Duration // shift is when the first period begins
	left          time.Duration // left is what is left of the quota; below 0: it was exceeded
	current       int64         // current is the number of the period that left is of
	standing      bool          // standing waits for the next period
}

// quantum is how long a thread keeps a processor for which others wait.
const quantum = 500 * time.Microsecond

// job is a piece of work. It says what it costs when it begins; done comes when that time has been spent.
type job func() (cost time.Duration, done func())

// item is a job in the queue of a thread.
type item struct {
	job
	since time.Duration // since is when it was put there
	part  bool          // part is whether the thread gave it to itself: of the piece of work that it was at, not another one
}

// thread does one job after the other.
type thread struct {
	host   *host
	wake   time.Duration // wake is what it costs to begin when nothing was to do
	queue  fifo[item]
	active bool
	left   time.Duration
	done   func()
	used   time.Duration // used is of the quantum
	cpu    time.Duration // cpu is in time of the micro-benchmarks' machine
	busy   time.Duration
	since  time.Duration // since is when it became active
	units  int64         // units is how many items it has begun
	waited time.Duration // waited is for how long those were in the queue, all together
}

func (h *host) newThread(wake time.Duration) *thread { return &thread{host: h, wake: wake} }

func (t *thread) put(j job) {
	t.queue.put(item{j, t.host.engine.now, t.host.at == t})
	if !t.active {
		t.active, t.since = true, t.host.engine.now
		wake := t.wake
		if t.host.active++; t.host.active == 1 {
			wake += t.host.idle
		}
		t.left = t.scaled(wake)
		t.host.ready.put(t)
		t.host.dispatch()
	}
}

func (t *thread) scaled(cost time.Duration) time.Duration {
	t.cpu += cost
	return time.Duration(float64(cost) / t.host.speed)
}

// may reports whether there is quota left; if not, threads are woken when there is.
func (h *host) may() bool {
	if h.quota == 0 {
		return true
	}
	since := h.engine.now + h.period - h.shift
	if number := int64(since / h.period); number > h.current {
		h.left = min(h.quota, h.left+time.Duration(number-h.current)*h.quota)
		h.current = number
	}
	if h.left > 0 {
		return true
	}
	if !h.standing {
		h.standing = true
		h.engine.after(h.period-since%h.period, func() {
			h.standing = false
			h.dispatch()
		})
	}
	return false
}

// dispatch gives free processors to threads that are ready.
func (h *host) dispatch() {
	for h.free > 0 && h.ready.len() > 0 && h.may() {
		t := h.ready.take()
		h.free--
		h.run(t)
	}
}

// run has a thread use the processor that it was given until its quantum is over or nothing is left to do.
func (h *host) run(t *thread) {
	if t.done == nil {
		cost, done := t.begin()
		t.left, t.done = t.left+t.scaled(cost), done
	}
	slice := min(t.left, quantum-t.used)
	h.engine.after(slice, func() {
		h.left -= slice
		t.used += slice
		if t.left -= slice; t.left <= 0 {
			done := t.done
			t.done = nil
			h.as(t, done)
			if t.queue.len() == 0 {
				t.active, t.used = false, 0
				h.active--
				t.busy += h.engine.now - t.since
				h.free++
				h.dispatch()
				return
			}
		}
		if t.used < quantum && h.may() {
			h.run(t)
			return
		}
		t.used = 0
		h.free++
		h.ready.put(t)
		h.dispatch()
	})
}

// begin takes the next job. It counts as an item of the stage, but for what belongs to the one before.
func (t *thread) begin() (cost time.Duration, done func()) {
	next := t.queue.take()
	if !next.part {
		t.units++
		t.waited += t.host.engine.now - next.since
	}
	t.host.as(t, func() { cost, done = next.job() })
	return cost, done
}

// as does something that a thread does; what others then begin is theirs.
func (h *host) as(t *thread, do func()) {
	before := h.at
	h.at = t
	do()
	h.at = before
}

// atWork is for how long the thread has been active so far.
func (t *thread) atWork() time.Duration {
	if t.active {
		return t.busy + t.host.engine.now - t.since
	}
	return t.busy
}
