package bft

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
)

// ErrEncoding is what a message or record that cannot be read wraps.
var ErrEncoding = errors.New("malformed")

// How many items a list has at most.
const (
	// MaxMembers is how many members a group has, and so how many sign the same. No network is set up with more than 25
	// orderers, bft-bench takes 64 replicas, and a client of Zyzzyva has a word's bits to tell them apart.
	MaxMembers = 64
	// MaxTxs is how many transactions an entry has: a channel's configuration lets none be proposed with more.
	MaxTxs = 1 << 20
	// Unbounded is for lists that no rule bounds, or only one that a core knows. They are as long as the message has bytes for.
	Unbounded = math.MaxInt
)

// How many bytes an item of a list takes at least.
const (
	leastID        = 1
	leastTx        = 1 + 1 // it is not empty
	leastSignature = leastID + 1
	leastGroup     = 1 + 1
	// LeastCheckpoint is of a checkpoint, and LeastCertificate of a certificate.
	LeastCheckpoint  = 1 + 1 + sha256.Size + leastGroup
	LeastCertificate = LeastCheckpoint + 1
)

// Writer spells values the one way in which they are signed, sent and stored.
type Writer struct{ Bytes []byte }

// Uint appends a number.
func (w *Writer) Uint(v uint64) { w.Bytes = binary.AppendUvarint(w.Bytes, v) }

// Bool appends a flag.
func (w *Writer) Bool(v bool) {
	if v {
		w.Uint(1)
	} else {
		w.Uint(0)
	}
}

// Chunk appends bytes and how many they are.
func (w *Writer) Chunk(b []byte) {
	w.Uint(uint64(len(b)))
	w.Bytes = append(w.Bytes, b...)
}

// Digest appends a digest.
func (w *Writer) Digest(d Digest) { w.Bytes = append(w.Bytes, d[:]...) }

// Entry appends an entry, or that there is none.
func (w *Writer) Entry(e *Entry) {
	w.Bool(e != nil)
	if e == nil {
		return
	}
	w.Bool(e.Config)
	w.Uint(uint64(len(e.Txs)))
	for _, tx := range e.Txs {
		w.Chunk(tx)
	}
}

// Group appends a group.
func (w *Writer) Group(g Group) {
	w.Uint(g.Epoch)
	w.Uint(uint64(len(g.Members)))
	for _, id := range g.Members {
		w.Uint(id)
	}
}

// Signatures appends signatures.
func (w *Writer) Signatures(s []Signature) {
	w.Uint(uint64(len(s)))
	for _, one := range s {
		w.Uint(one.By)
		w.Chunk(one.Bytes)
	}
}

// Place spells where a message belongs.
func (w *Writer) Place(epoch, view, seq uint64) {
	w.Uint(epoch)
	w.Uint(view)
	w.Uint(seq)
}

// Checkpoint appends a checkpoint.
func (w *Writer) Checkpoint(c Checkpoint) {
	w.Uint(c.Epoch)
	w.Uint(c.Seq)
	w.Digest(c.State)
	w.Group(c.Next)
}

// Certificate appends a certificate.
func (w *Writer) Certificate(c Certificate) {
	w.Checkpoint(c.Checkpoint)
	w.Signatures(c.Signatures)
}

// Reader reads what a Writer has written. After an error every value is zero, and Err says so.
// Chunks are parts of what is read.
type Reader struct {
	rest []byte
	err  error
}

// NewReader reads raw.
func NewReader(raw []byte) *Reader { return &Reader{rest: raw} }

// Err is the first error; bytes that are left over are one.
func (r *Reader) Err() error {
	if r.err == nil && len(r.rest) > 0 {
		return ErrEncoding
	}
	return r.err
}

// More reports whether there is more to read.
func (r *Reader) More() bool { return len(r.rest) > 0 }

func (r *Reader) fail() { r.err, r.rest = ErrEncoding, nil }

// Uint reads a number. It has one spelling only.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Bool reads a flag.
func (r *Reader) Bool() bool {
	v := r.Uint()
	if v > 1 {
		r.fail()
	}
	return v == 1
}

// Chunk reads bytes.
func (r *Reader) Chunk() []byte { return r.take(r.Uint()) }

func (r *Reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	chunk := r.rest[:n:n]
	r.rest = r.rest[n:]
	return chunk
}

// Count reads how many items follow, each of which takes at least so many bytes.
func (r *Reader) Count(least int) int {
	n := r.Uint()
	if n > uint64(len(r.rest)/least) {
		r.fail()
		return 0
	}
	return int(n)
}

// List reads items, each of which takes at least so many bytes, and of which there are at most so many. Anybody may have
// written the count: there is room made for as many items as there are bytes for, and the first that is none ends the list.
func List[T any](r *Reader, least, most int, read func(*Reader) T) []T {
	n := r.Count(least)
	if n > most {
		r.fail()
	}
	if n == 0 || r.err != nil {
		return nil
	}
	items := make([]T, n)
	for i := range items {
		if items[i] = read(r); r.err != nil {
			return nil
		}
	}
	return items
}

// Digest reads a digest.
func (r *Reader) Digest() (d Digest) {
	copy(d[:], r.take(uint64(len(d))))
	return d
}

// Entry reads an entry.
func (r *Reader) Entry() *Entry {
	if !r.Bool() {
		return nil
	}
	return &Entry{Config: r.Bool(), Txs: r.txs(MaxTxs)}
}

func (r *Reader) txs(most int) [][]byte { return List(r, leastTx, most, (*Reader).tx) }

// tx reads a transaction. None is empty: a client has signed each, or a replica has marked it.
func (r *Reader) tx() []byte {
	tx := r.Chunk()
	if len(tx) == 0 {
		r.fail()
	}
	return tx
}

// Body reads an entry that has to be there.
func (r *Reader) Body() *Entry {
	e := r.Entry()
	if e == nil {
		r.fail()
	}
	return e
}

// Group reads a group. Its members ascend.
func (r *Reader) Group() Group {
	g := Group{Epoch: r.Uint(), Members: List(r, leastID, MaxMembers, (*Reader).Uint)}
	for i, id := range g.Members {
		if i > 0 && g.Members[i-1] >= id {
			r.fail()
		}
	}
	return g
}

// Signatures reads signatures.
func (r *Reader) Signatures() []Signature {
	return List(r, leastSignature, MaxMembers, (*Reader).signature)
}

func (r *Reader) signature() Signature { return Signature{By: r.Uint(), Bytes: r.Chunk()} }

// Checkpoint reads a checkpoint.
func (r *Reader) Checkpoint() Checkpoint {
	return Checkpoint{Epoch: r.Uint(), Seq: r.Uint(), State: r.Digest(), Next: r.Group()}
}

// Certificate reads a certificate.
func (r *Reader) Certificate() Certificate {
	return Certificate{Checkpoint: r.Checkpoint(), Signatures: r.Signatures()}
}
