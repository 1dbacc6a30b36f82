package bft

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String is enough of it to tell digests apart in a log.
func (d Digest) String() string { return hex.EncodeToString(d[:4]) }

// Entry is what one sequence number orders: a batch of transactions, a single configuration, or nothing.
type Entry struct {
	Txs    [][]byte
	Config bool
}

// TxDigest names a transaction.
func TxDigest(tx []byte) Digest { return sha256.Sum256(tx) }

// NullDigest is that of an entry without transactions, which fills a gap.
var NullDigest = (&Entry{}).Digest()

// Digest names the entry. It covers where each transaction begins and ends.
func (e *Entry) Digest() Digest {
	covered := make([]byte, 1, 1+len(e.Txs)*sha256.Size)
	if e.Config {
		covered[0] = 1
	}
	for _, tx := range e.Txs {
		d := TxDigest(tx)
		covered = append(covered, d[:]...)
	}
	return sha256.Sum256(covered)
}

// Size is the number of bytes of its transactions.
func (e *Entry) Size() int {
	size := 0
	for _, tx := range e.Txs {
		size += len(tx)
	}
	return size
}
