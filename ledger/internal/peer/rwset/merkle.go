package rwset

import (
	"bytes"
	"crypto/sha256"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
)

// degree is Fabric's: a range query with more results than this is recorded by hashes of them, at most so many.
const degree = 50

// merkle hashes the results of a range query as Fabric does, so that a transaction that has read ten thousand keys need
// not name them to every orderer and peer. Level 1 has the hash of each degree+1 results, the next that of each degree+1
// hashes of the one before, and so on, until a level has at most degree hashes. A result that differs makes another hash.
type merkle struct {
	degree  int
	pending int
	encoded []byte     // the pending results, as a QueryReads
	levels  [][][]byte // hashes that the next level does not have yet
}

func (m *merkle) add(key string, version statedb.Version) {
	m.encoded = appendRead(m.encoded, key, version)
	if m.pending++; m.pending > m.degree {
		m.hashPending()
	}
}

func (m *merkle) hashPending() {
	m.put(0, sum(m.encoded))
	m.encoded, m.pending = m.encoded[:0], 0
	for level := 0; len(m.levels[level]) > m.degree; level++ {
		m.raise(level)
	}
}

func (m *merkle) put(level int, hash []byte) {
	if level == len(m.levels) {
		m.levels = append(m.levels, nil)
	}
	m.levels[level] = append(m.levels[level], hash)
}

// raise replaces a level's hashes by one of the next level; one alone goes up as it is.
func (m *merkle) raise(level int) {
	hashes := m.levels[level]
	m.levels[level] = nil
	switch len(hashes) {
	case 0:
	case 1:
		m.put(level+1, hashes[0])
	default:
		m.put(level+1, sum(bytes.Join(hashes, nil)))
	}
}

// height is how many levels there are so far.
func (m *merkle) height() uint32 { return uint32(len(m.levels)) }

// at are the hashes of a level, from 1 on, that are there so far.
func (m *merkle) at(level uint32) [][]byte {
	if level == 0 || int64(level) > int64(len(m.levels)) {
		return nil
	}
	return m.levels[level-1]
}

// summary ends the tree; nil where there were no more than degree results.
func (m *merkle) summary() *kvrwsetpb.QueryReadsMerkleSummary {
	if len(m.levels) == 0 {
		return nil
	}
	if m.pending > 0 {
		m.put(0, sum(m.encoded))
	}
	for level := 0; level+1 < len(m.levels) || len(m.levels[level]) > m.degree; level++ {
		m.raise(level)
	}
	top := len(m.levels)
	return &kvrwsetpb.QueryReadsMerkleSummary{MaxDegree: uint32(m.degree), MaxLevel: uint32(top), MaxLevelHashes: m.levels[top-1]}
}

func sum(data []byte) []byte {
	hash := sha256.Sum256(data)
	return hash[:]
}

// appendRead adds a KVRead to an encoded QueryReads, byte for byte as protobuf has it: it is done for every key that a
// range query reads, by every peer. No key is empty.
func appendRead(out []byte, key string, version statedb.Version) []byte {
	inner := uintSize(version.Block) + uintSize(version.Tx)
	if n := len(version.Hash); n > 0 {
		inner += 1 + protowire.SizeBytes(n)
	}
	size := 1 + protowire.SizeBytes(len(key)) + 1 + protowire.SizeBytes(inner)
	out = protowire.AppendVarint(protowire.AppendTag(out, 1, protowire.BytesType), uint64(size))
	out = protowire.AppendString(protowire.AppendTag(out, 1, protowire.BytesType), key)
	out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.BytesType), uint64(inner))
	out = appendUint(out, 1, version.Block)
	out = appendUint(out, 2, version.Tx)
	if len(version.Hash) > 0 {
		out = protowire.AppendString(protowire.AppendTag(out, 3, protowire.BytesType), version.Hash)
	}
	return out
}

// uintSize is the size of a field with a number below 16; zero is not encoded.
func uintSize(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func appendUint(out []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return out
	}
	return protowire.AppendVarint(protowire.AppendTag(out, field, protowire.VarintType), v)
}
