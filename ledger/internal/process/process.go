// Package process fits a process of the ledger to a host that it shares: how many processors run its Go code, how late its
// timers may be, how much garbage piles up before it is collected, and an alarm for what must be on time.
package process

import "time"

// Tune limits the process to that many processors for its Go code (0: leaves it as it is), and gives the timers slack where
// that is one; the process writes to its connections gap apart (0: at once). It may start the program anew (MayRestart), so
// it comes before signals are caught and before anything is opened. It is for main's goroutine.
func Tune(processors int, gap time.Duration) {
	limitProcessors(processors)
	slackenTimers(gap)
}
