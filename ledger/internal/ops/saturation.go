package ops

import (
	"sync/atomic"
	"time"
)

// Saturation is for how long a loop has worked, as opposed to waited: a rate of 1 means that it can do no more. A loop of
// one goroutine calls Wait before it waits and Work after; goroutines that share one call Add.
type Saturation struct {
	worked atomic.Int64 // worked is in nanoseconds
	since  time.Time    // since is when the loop began to work
}

// Work notes that the loop has something to do.
func (s *Saturation) Work() { s.since = time.Now() }

// Wait notes that the loop has done it.
func (s *Saturation) Wait() { s.Add(time.Since(s.since)) }

// Add counts a piece of work.
func (s *Saturation) Add(worked time.Duration) { s.worked.Add(int64(worked)) }

// Seconds is the time worked so far. Any goroutine may ask.
func (s *Saturation) Seconds() float64 { return time.Duration(s.worked.Load()).Seconds() }
