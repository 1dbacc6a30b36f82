// Package statedb is a channel's world state: the committed value of every key,
// with the position of the transaction that wrote it, in memory and ordered.
//
// There is one writer, the commit stage, which applies whole transactions.
// Simulations read snapshots, which are copy-on-write: one costs nothing until the
// next write, and then only the tree nodes on the path to what is written. Nothing
// here is durable; the block files are.
package statedb

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"sync"

	"github.com/tidwall/btree"
)

// Version is the position of the transaction that wrote a key.
type Version struct {
	Block uint64
	Tx    uint64
	// Hash is the running hash after that transaction, where some orderers may lie: a key that was written at the same
	// place of another order has another version. It is empty elsewhere.
	Hash string
}

// Entry is a committed key.
type Entry struct {
	Key     string
	Value   string
	Version Version
}

// Write is a change of one key.
type Write struct {
	Namespace string
	Key       string
	Value     []byte
	Delete    bool
}

type tree = btree.BTreeG[record]

func newTree() *tree {
	return btree.NewBTreeGOptions(func(a, b record) bool { return a.key() < b.key() }, btree.Options{NoLocks: true})
}

// DB is the state of one channel.
type DB struct {
	mu     sync.Mutex
	spaces map[string]*tree
	// current is the snapshot of the state as it is; nil after a change.
	current *Snapshot
}

// New gives an empty state.
func New() *DB { return &DB{spaces: map[string]*tree{}} }

// Apply makes all the writes of one transaction visible at once.
func (db *DB) Apply(version Version, writes []Write) {
	if len(writes) == 0 {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.current = nil
	for i := range writes {
		w := &writes[i]
		space := db.space(w.Namespace)
		if w.Delete {
			space.Delete(wanted(w.Key))
		} else {
			space.Set(newRecord(w.Key, version, w.Value))
		}
	}
}

// Load puts back a key that a snapshot had; it is quick where keys come in order.
func (db *DB) Load(namespace, key string, version Version, value []byte) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.current = nil
	db.space(namespace).Load(newRecord(key, version, value))
}

// space is a namespace's keys. The caller holds the lock.
func (db *DB) space(namespace string) *tree {
	space := db.spaces[namespace]
	if space == nil {
		space = newTree()
		db.spaces[namespace] = space
	}
	return space
}

// Reset takes back all that came after a snapshot.
func (db *DB) Reset(to *Snapshot) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.current = nil
	db.spaces = make(map[string]*tree, len(to.spaces))
	for name, space := range to.spaces {
		db.spaces[name] = space.Copy()
	}
}

// Snapshot is the state between two transactions. Snapshots taken without a
// change in between are one and the same.
func (db *DB) Snapshot() *Snapshot {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.current == nil {
		s := &Snapshot{spaces: make(map[string]*tree, len(db.spaces))}
		for name, space := range db.spaces {
			s.spaces[name] = space.Copy()
		}
		db.current = s
	}
	return db.current
}

// Get reads the newest committed entry, nil when there is none.
func (db *DB) Get(namespace, key string) *Entry {
	db.mu.Lock()
	defer db.mu.Unlock()
	return get(db.spaces[namespace], key)
}

// Walk visits the newest state's entries in the order of keys, from start (included) to end (excluded; empty for no end),
// until visit returns false. Nothing can be applied, and no snapshot be taken, meanwhile.
func (db *DB) Walk(namespace, start, end string, visit func(Entry) bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	walk(db.spaces[namespace], start, end, visit)
}

// Snapshot is safe for concurrent use and needs no release.
type Snapshot struct{ spaces map[string]*tree }

// Get reads an entry, nil when there is none.
func (s *Snapshot) Get(namespace, key string) *Entry { return get(s.spaces[namespace], key) }

// Scan reads at most limit entries in the order of keys, from start (included) to end
// (excluded; empty for no end).
func (s *Snapshot) Scan(namespace, start, end string, limit int) []*Entry {
	if limit <= 0 {
		return nil
	}
	var out []*Entry
	walk(s.spaces[namespace], start, end, func(e Entry) bool {
		out = append(out, &e)
		return len(out) < limit
	})
	return out
}

// Len is the number of keys.
func (s *Snapshot) Len() int {
	n := 0
	for _, space := range s.spaces {
		n += space.Len()
	}
	return n
}

// Namespaces are the names of all that have had a key, in order.
func (s *Snapshot) Namespaces() []string { return slices.Sorted(maps.Keys(s.spaces)) }

// Size is the number of keys in a namespace.
func (s *Snapshot) Size(namespace string) int {
	if space := s.spaces[namespace]; space != nil {
		return space.Len()
	}
	return 0
}

// Each visits a namespace's entries in order, until visit returns false.
func (s *Snapshot) Each(namespace string, visit func(Entry) bool) {
	if space := s.spaces[namespace]; space != nil {
		space.Scan(func(r record) bool { return visit(r.entry()) })
	}
}

// Hash covers every namespace, key, value and version, in order: equal hashes mean equal states.
func (s *Snapshot) Hash() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range s.Namespaces() {
		s.Each(name, func(e Entry) bool {
			hashString(h, name)
			hashString(h, e.Key)
			hashUint(h, e.Version.Block)
			hashUint(h, e.Version.Tx)
			hashString(h, e.Version.Hash)
			hashString(h, e.Value)
			return true
		})
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func hashString(h hash.Hash, s string) {
	hashUint(h, uint64(len(s)))
	_, _ = h.Write([]byte(s)) // a hash never errs
}

func hashUint(h hash.Hash, v uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	_, _ = h.Write(b[:])
}

func get(t *tree, key string) *Entry {
	if t == nil {
		return nil
	}
	r, ok := t.Get(wanted(key))
	if !ok {
		return nil
	}
	e := r.entry()
	return &e
}

func walk(t *tree, start, end string, visit func(Entry) bool) {
	if t == nil {
		return
	}
	t.Ascend(wanted(start), func(r record) bool {
		e := r.entry()
		return (end == "" || e.Key < end) && visit(e)
	})
}
