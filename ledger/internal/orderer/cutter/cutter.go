// Package cutter decides where one block ends and the next begins. It is a pure
// function of the order of transactions, so that all orderers, and one that
// replays its log, cut alike, and peers know where a block must have ended.
package cutter

import "github.com/qioi/qioi/ledger/internal/channelconfig"

// Cutter follows Fabric's rules, in stream mode with the bounds of a virtual block.
type Cutter struct {
	maxCount       int
	preferredBytes int
	count, bytes   int
}

// New starts with an empty block.
func New(maxCount, preferredBytes int) *Cutter {
	return &Cutter{maxCount: maxCount, preferredBytes: preferredBytes}
}

// For starts with the bounds of a channel's blocks, or virtual blocks.
func For(o *channelconfig.Orderer) *Cutter {
	if o.Mode == channelconfig.Stream {
		return New(o.VirtualBlockTxs, o.PreferredMaxBytes)
	}
	return New(o.MaxMessageCount, o.PreferredMaxBytes)
}

// Add puts a transaction of size bytes into the order. before: the open block ends
// and the transaction starts the next one. after: the block ends with the
// transaction. A configuration transaction has a block of its own, and so has one
// that alone is larger than the preferred size.
func (c *Cutter) Add(size int, config bool) (before, after bool) {
	before = c.count > 0 && (config || c.bytes+size > c.preferredBytes)
	if before {
		c.Cut()
	}
	c.count++
	c.bytes += size
	after = config || c.count >= c.maxCount || c.bytes > c.preferredBytes
	if after {
		c.Cut()
	}
	return before, after
}

// Cut empties the open block: a timer, an `after` or a `before` has ended it.
func (c *Cutter) Cut() { c.count, c.bytes = 0, 0 }
