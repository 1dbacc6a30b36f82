package statedb

import (
	"encoding/binary"
	"strings"
)

// record is an entry as the tree keeps it: the key's length in 4 bytes, the key, then block and transaction as uvarints,
// the hash with its length before it, and the value. The garbage collector visits each live object in each cycle: an Entry
// with its key and value is three of them and holds pointers, a record is one and holds none.
type record string

// keyAt is where a record's key begins.
const keyAt = 4

func newRecord(key string, version Version, value []byte) record {
	head := make([]byte, 0, 3*binary.MaxVarintLen64)
	head = binary.AppendUvarint(head, version.Block)
	head = binary.AppendUvarint(head, version.Tx)
	head = binary.AppendUvarint(head, uint64(len(version.Hash)))
	var b strings.Builder
	b.Grow(keyAt + len(key) + len(head) + len(version.Hash) + len(value))
	writeKey(&b, key)
	b.Write(head)
	b.WriteString(version.Hash)
	b.Write(value)
	return record(b.String())
}

// wanted is a record to look for.
func wanted(key string) record {
	var b strings.Builder
	b.Grow(keyAt + len(key))
	writeKey(&b, key)
	return record(b.String())
}

func writeKey(b *strings.Builder, key string) {
	var length [keyAt]byte
	binary.LittleEndian.PutUint32(length[:], uint32(len(key)))
	b.Write(length[:])
	b.WriteString(key)
}

// keyEnd is where a record's key ends.
func (r record) keyEnd() int {
	return keyAt + int(uint32(r[0])|uint32(r[1])<<8|uint32(r[2])<<16|uint32(r[3])<<24)
}

func (r record) key() string { return string(r[keyAt:r.keyEnd()]) }

// entry takes a record apart; key, hash and value stay where they are.
func (r record) entry() Entry {
	end := r.keyEnd()
	e := Entry{Key: string(r[keyAt:end])}
	rest := string(r[end:])
	e.Version.Block, rest = uvarint(rest)
	e.Version.Tx, rest = uvarint(rest)
	length, rest := uvarint(rest)
	e.Version.Hash, e.Value = rest[:length], rest[length:]
	return e
}

// uvarint is binary.Uvarint of a text that has one.
func uvarint(s string) (v uint64, rest string) {
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		v |= uint64(s[i]&0x7f) << shift
		if s[i] < 0x80 {
			return v, s[i+1:]
		}
	}
}
