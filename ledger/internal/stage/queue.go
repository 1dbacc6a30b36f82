package stage

import "time"

// started is what times of queues and spans are counted from: to read the monotonic clock alone takes half as long.
var started = time.Now()

func now() time.Duration { return time.Since(started) }

// Waiting is an item in the queue of a stage.
type Waiting[T any] struct {
	item  T
	since time.Duration // since is when it was put there
}

// Wait makes an item ready to be put into a queue.
func Wait[T any](item T) Waiting[T] { return Waiting[T]{item, now()} }

// Take is for an item that a span of work has received from the queue. It waited until the span began: a stage that takes
// many at once begins all of them, and reads the clock once. What came after that did not wait.
func Take[T any](s *Span, w Waiting[T]) T {
	s.waited += max(0, s.began-w.since)
	return w.item
}
