package sequencer

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// ahead is how much of a log's file is written before there is anything to keep in it: over what is written, a sync writes
// the data alone. Where blocks of the file are new the file system writes about each of them too.
const ahead = 4 << 20

// clearing writes zeros after the end of a log, in the background. It is of the goroutine that appends.
type clearing struct {
	file *os.File
	to   int64         // up to here there are zeros
	next int64         // up to here there are when done closes
	done chan struct{} // nil: nothing is under way
}

// reserve returns when there are zeros up to need, or none are to be had: an append will tell why.
func (c *clearing) reserve(need int64) {
	if c.done != nil {
		select {
		case <-c.done:
			c.take()
		default:
		}
	}
	for need > c.to {
		c.begin(need)
		<-c.done
		c.take()
	}
	if need > c.to-ahead/2 {
		c.begin(need)
	}
}

// begin has zeros written, unless they are under way.
func (c *clearing) begin(need int64) {
	if c.done != nil {
		return
	}
	c.next, c.done = max(need, c.to)+ahead, make(chan struct{})
	go func(from, to int64, done chan<- struct{}) {
		defer close(done)
		zeros := make([]byte, 64<<10)
		for from < to {
			n, err := c.file.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
			if err != nil {
				return // the file grows with each append, where it can
			}
			from += int64(n)
		}
		_ = unix.Fdatasync(int(c.file.Fd())) // or an append does it
	}(c.to, c.next, c.done)
}

func (c *clearing) take() { c.to, c.done = c.next, nil }

// wait returns when nothing is under way, after which nothing more may be.
func (c *clearing) wait() {
	if c.done != nil {
		<-c.done
	}
	c.to = math.MaxInt64
}
