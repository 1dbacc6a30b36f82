package ops

import "time"

// started is what times of waits are counted from: to read the monotonic clock alone takes half as long.
var started = time.Now()

// Waits is what waits in a queue, and for how long all items together have waited: the area under the queue's length over
// time, for which no item needs a stamp of its own. Per item it is the mean wait, and per time the mean length (Little's
// law). The queue's own lock guards it.
type Waits struct {
	stood Stood
	at    time.Duration // at is until when waiting is counted
}

// Stood is what a queue has counted.
type Stood struct {
	Length int           // Length is how many items wait now.
	Came   uint64        // Came is how many were put so far.
	Waited time.Duration // Waited is for how long items have waited so far, all together.
}

// Put notes that so many items wait from now on.
func (w *Waits) Put(items int) {
	w.count()
	w.stood.Came += uint64(items)
	w.stood.Length += items
}

// Begin notes that the work on so many of them begins.
func (w *Waits) Begin(items int) {
	w.count()
	w.stood.Length -= items
}

// Stands tells what was counted until now.
func (w *Waits) Stands() Stood {
	w.count()
	return w.stood
}

func (w *Waits) count() {
	now := time.Since(started)
	w.stood.Waited += time.Duration(w.stood.Length) * (now - w.at)
	w.at = now
}
