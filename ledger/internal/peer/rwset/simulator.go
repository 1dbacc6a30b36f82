// Package rwset is what a transaction read and wrote: recorded while it is
// simulated, encoded as Fabric's read/write set, decoded and checked against the
// state at commit.
package rwset

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
)

// maxRecorded bounds the bytes that one simulation may read and write: far more
// than fits into a transaction. Range queries by hashes are held to it once more
// at commit, so it is the same at every peer of a channel.
const maxRecorded = 64 << 20

// resultBytes is what each result of a range query counts for beside its key and
// value, since visiting and hashing it takes its time: so there are 100,000 at
// most, which is Fabric's default (totalQueryLimit).
const resultBytes = maxRecorded / 100_000

// ErrTooLarge says that a simulation went beyond the bound.
var ErrTooLarge = errors.New("the transaction reads and writes too much")

// Simulator runs against one snapshot and records. As in Fabric, reads see the
// committed state and never the simulation's own writes. It belongs to one
// transaction and is not safe for concurrent use.
type Simulator struct {
	snapshot *statedb.Snapshot
	spaces   map[string]*recording
	size     int
}

type recording struct {
	reads  map[string]*statedb.Entry // nil: the key does not exist
	writes map[string]*kvrwsetpb.KVWrite
	ranges []*Query
}

// NewSimulator starts a transaction on a snapshot.
func NewSimulator(snapshot *statedb.Snapshot) *Simulator {
	return &Simulator{snapshot: snapshot, spaces: map[string]*recording{}}
}

func (s *Simulator) space(name string) *recording {
	r := s.spaces[name]
	if r == nil {
		r = &recording{reads: map[string]*statedb.Entry{}, writes: map[string]*kvrwsetpb.KVWrite{}}
		s.spaces[name] = r
	}
	return r
}

func (s *Simulator) grow(n int) error {
	if s.size += n; s.size > maxRecorded {
		return fmt.Errorf("%w: at most %d bytes are accepted", ErrTooLarge, maxRecorded)
	}
	return nil
}

// Get reads a key; nil when it does not exist.
func (s *Simulator) Get(namespace, key string) ([]byte, error) {
	if err := s.grow(len(key)); err != nil {
		return nil, err
	}
	e := s.snapshot.Get(namespace, key)
	s.space(namespace).reads[key] = e
	if e == nil {
		return nil, nil
	}
	return []byte(e.Value), nil
}

// Put writes a key; the last write counts. As in Fabric an empty value removes the key.
func (s *Simulator) Put(namespace, key string, value []byte) error {
	return s.write(namespace, &kvrwsetpb.KVWrite{Key: key, Value: value, IsDelete: len(value) == 0})
}

// Delete removes a key.
func (s *Simulator) Delete(namespace, key string) error {
	return s.write(namespace, &kvrwsetpb.KVWrite{Key: key, IsDelete: true})
}

func (s *Simulator) write(namespace string, w *kvrwsetpb.KVWrite) error {
	if w.Key == "" {
		return errors.New("an empty key cannot be written")
	}
	if err := s.grow(len(w.Key) + len(w.Value)); err != nil {
		return err
	}
	s.space(namespace).writes[w.Key] = w
	return nil
}

// Query is an open range query.
type Query struct {
	sim              *Simulator
	namespace        string
	start, end, next string
	reads            []*statedb.Entry
	exhausted        bool
	refused          error // beyond the bound
}

// Range opens a query over [start, end); an empty end means no end. It counts as much as a result: without one it is
// recorded, too.
func (s *Simulator) Range(namespace, start, end string) *Query {
	q := &Query{sim: s, namespace: namespace, start: start, end: end, next: start}
	if q.refused = s.grow(resultBytes + len(start) + len(end)); q.refused != nil {
		return q
	}
	r := s.space(namespace)
	r.ranges = append(r.ranges, q)
	return q
}

// Next reads at most limit further entries, fewer where the simulation's bound comes first. more reports whether others
// follow; only when none do has the transaction seen the end of the range.
func (q *Query) Next(limit int) (entries []*statedb.Entry, more bool, err error) {
	if q.exhausted || q.refused != nil {
		return nil, false, q.refused
	}
	entries = q.sim.snapshot.Scan(q.namespace, q.next, q.end, limit+1)
	next := q.next
	if len(entries) > limit {
		next, more = entries[limit].Key, true
		entries = entries[:limit]
	}
	for i, e := range entries {
		size := resultBytes + len(e.Key) + len(e.Value)
		if i > 0 && q.sim.size+size > maxRecorded { // a page ends here; who goes on is refused
			entries, next, more = entries[:i], e.Key, true
			break
		}
		if q.refused = q.sim.grow(size); q.refused != nil {
			return nil, false, q.refused
		}
	}
	q.next, q.exhausted = next, !more
	q.reads = append(q.reads, entries...)
	return entries, more, nil
}

// NextKey is where the query would go on.
func (q *Query) NextKey() string { return q.next }

// Encode gives the read/write set as Fabric puts it into a transaction: namespaces and
// keys in order, so that every endorser encodes the same simulation alike. It errs once the bound has been met, also where
// the contract has gone on: what it was refused is not in the set, and its answer may rest on that.
func (s *Simulator) Encode() ([]byte, error) {
	if err := s.grow(0); err != nil {
		return nil, err
	}
	out := &rwsetpb.TxReadWriteSet{DataModel: rwsetpb.TxReadWriteSet_KV}
	for _, name := range slices.Sorted(maps.Keys(s.spaces)) {
		raw, err := proto.Marshal(s.spaces[name].encode())
		if err != nil {
			return nil, fmt.Errorf("read/write set of %s: %w", name, err)
		}
		out.NsRwset = append(out.NsRwset, &rwsetpb.NsReadWriteSet{Namespace: name, Rwset: raw})
	}
	return proto.Marshal(out)
}

func (r *recording) encode() *kvrwsetpb.KVRWSet {
	out := &kvrwsetpb.KVRWSet{}
	for _, key := range slices.Sorted(maps.Keys(r.reads)) {
		out.Reads = append(out.Reads, encodeRead(key, r.reads[key]))
	}
	for _, q := range r.ranges {
		if q.exhausted || len(q.reads) > 0 {
			out.RangeQueriesInfo = append(out.RangeQueriesInfo, q.encode())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.writes)) {
		out.Writes = append(out.Writes, r.writes[key])
	}
	return out
}

// encode ends the range of a query that was not read to its end at the last key it saw.
func (q *Query) encode() *kvrwsetpb.RangeQueryInfo {
	info := &kvrwsetpb.RangeQueryInfo{StartKey: q.start, EndKey: q.end, ItrExhausted: q.exhausted}
	if !q.exhausted {
		info.EndKey = q.reads[len(q.reads)-1].Key
	}
	if len(q.reads) > degree {
		info.ReadsInfo = &kvrwsetpb.RangeQueryInfo_ReadsMerkleHashes{ReadsMerkleHashes: summarize(q.reads)}
		return info
	}
	reads := &kvrwsetpb.QueryReads{}
	for _, e := range q.reads {
		reads.KvReads = append(reads.KvReads, encodeRead(e.Key, e))
	}
	info.ReadsInfo = &kvrwsetpb.RangeQueryInfo_RawReads{RawReads: reads}
	return info
}

func summarize(reads []*statedb.Entry) *kvrwsetpb.QueryReadsMerkleSummary {
	tree := &merkle{degree: degree}
	for _, e := range reads {
		tree.add(e.Key, e.Version)
	}
	return tree.summary()
}

func encodeRead(key string, e *statedb.Entry) *kvrwsetpb.KVRead {
	read := &kvrwsetpb.KVRead{Key: key}
	if e != nil {
		read.Version = &kvrwsetpb.Version{BlockNum: e.Version.Block, TxNum: e.Version.Tx, RunningHash: []byte(e.Version.Hash)}
	}
	return read
}
