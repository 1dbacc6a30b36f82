package consensus

import "time"

// BlockTimer tells when the open block has been open for its time, which counts from when its first transaction was
// applied here. It is of the goroutine that applies.
type BlockTimer struct {
	interval func() time.Duration // interval is how long a block may stay open
	timer    *time.Timer
	block    uint64 // block is the one that timer is set for; 0: it is not set
}

// NewBlockTimer makes a timer that is not set.
func NewBlockTimer(interval func() time.Duration) *BlockTimer {
	return &BlockTimer{interval: interval, timer: StoppedTimer()}
}

// StoppedTimer is a timer that does not fire before it is reset.
func StoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// C has a value when Block's time is over.
func (t *BlockTimer) C() <-chan time.Time { return t.timer.C }

// Block is the block that the timer is set for, or was when it fired; 0: none.
func (t *BlockTimer) Block() uint64 { return t.block }

// Watch is for after each change of the open block. It sets the timer for a block that has transactions.
func (t *BlockTimer) Watch(block uint64, txs int) {
	switch {
	case txs == 0:
		t.Stop()
	case t.block != block:
		t.block = block
		t.Again()
	}
}

// Again gives the block another interval.
func (t *BlockTimer) Again() { t.timer.Reset(t.interval()) }

// Stop leaves the timer as it is made.
func (t *BlockTimer) Stop() {
	t.timer.Stop()
	t.block = 0
}
