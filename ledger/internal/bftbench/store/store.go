// Package store is the table that replicas execute transactions on: in memory, or in SQLite.
package store

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
)

// The kinds.
const (
	Memory = "memory"
	SQLite = "sqlite"
	None   = "none" // what is written is read, and goes nowhere
)

// Kinds are those that Open knows.
var Kinds = []string{Memory, SQLite, None}

// Open makes a table with so many records. SQLite keeps it in a file of the folder.
func Open(kind, folder string, records, value int) (ycsb.Table, error) {
	switch kind {
	case Memory:
		return newMemory(records, value), nil
	case None:
		return newMemory(0, value), nil
	case SQLite:
		return openSQLite(folder, records, value)
	}
	return nil, fmt.Errorf("there is no execution %q: %v are accepted", kind, Kinds)
}

// memory is a hash table of fixed records. It has no pointers, so that the collector of garbage passes it by.
type memory struct {
	places map[uint64]uint32
	values []byte
	value  int
}

func newMemory(records, value int) *memory {
	m := &memory{places: make(map[uint64]uint32, records), values: make([]byte, records*value), value: value}
	for i := range records {
		m.places[uint64(i)] = uint32(i)
	}
	return m
}

func (m *memory) Begin() error  { return nil }
func (m *memory) Commit() error { return nil }
func (m *memory) Close() error  { return nil }

// Write leaves out keys that the table does not have.
func (m *memory) Write(key uint64, value []byte) error {
	if at, has := m.places[key]; has {
		copy(m.values[int(at)*m.value:][:m.value], value)
	}
	return nil
}

func (m *memory) read(key uint64) []byte { return m.values[int(m.places[key])*m.value:][:m.value] }
