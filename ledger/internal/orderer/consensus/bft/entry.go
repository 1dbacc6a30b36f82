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
	ids    []Digest // of Txs, once they were asked for
}

// IDs names the transactions, in their order. They are computed once, so Txs must not change. It is for one goroutine
// at a time.
func (e *Entry) IDs() []Digest {
	if len(e.ids) != len(e.Txs) {
		e.ids = make([]Digest, len(e.Txs))
		for i, tx := range e.Txs {
			e.ids[i] = TxDigest(tx)
		}
	}
	return e.ids
}

// TxDigest names a transaction.
func TxDigest(tx []byte) Digest { return sha256.Sum256(tx) }

// NullDigest is that of an entry without transactions, which fills a gap.
var NullDigest = (&Entry{}).Digest()

// Add appends a transaction, whose name is known.
func (e *Entry) Add(tx []byte, id Digest) {
	e.ids = append(e.IDs(), id)
	e.Txs = append(e.Txs, tx)
}

// Digest names the entry. It covers where each transaction begins and ends.
func (e *Entry) Digest() Digest {
	covered := make([]byte, 1, 1+len(e.Txs)*sha256.Size)
	if e.Config {
		covered[0] = 1
	}
	for _, id := range e.IDs() {
		covered = append(covered, id[:]...)
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

// Proper reports whether a leader may order the entry, in which there is room for so many transactions and bytes: it is not
// empty, its clients have signed it, a configuration is alone, and there is one mark at most.
func (e *Entry) Proper(oracle Oracle, txs, bytes int) bool {
	if len(e.Txs) == 0 || e.Config && len(e.Txs) > 1 || len(e.Txs) > txs || len(e.Txs) > 1 && e.Size() > bytes {
		return false
	}
	marks := 0
	for _, tx := range e.Txs {
		if config, ok := oracle.Check(tx); !ok || config != e.Config {
			return false
		}
		if oracle.Mark(tx) {
			marks++
		}
	}
	return marks <= 1
}
