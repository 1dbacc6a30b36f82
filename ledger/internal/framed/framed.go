// Package framed is how a log of frames begins: with what it is, and a key of its own that goes into the checksum of each
// frame. Nobody knows the key before, so that bytes which a client has chosen, in a frame that a power cut has left half
// written, look like a frame that was written after it by chance alone: one of 2^32 tries does.
package framed

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	nameBytes, keyBytes, sumBytes = 8, 8, 4
	// HeadBytes is the length of a head: what the file is, its key, and a checksum of both, without which a damaged key
	// would make all frames look torn.
	HeadBytes = nameBytes + keyBytes + sumBytes
)

// ErrNoHead is told of a file that begins in another way.
var ErrNoHead = errors.New("not a log of this kind, or a damaged one")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Key is a file's.
type Key struct{ sum uint32 }

func keyOf(head []byte) Key {
	return Key{crc32.Checksum(head[nameBytes:nameBytes+keyBytes], castagnoli)}
}

func sumOf(head []byte) uint32 { return crc32.Checksum(head[:nameBytes+keyBytes], castagnoli) }

// Begin makes the head of a file with a new key. The name has 8 bytes.
func Begin(name string) (head []byte, key Key) {
	head = append(make([]byte, 0, HeadBytes), name...)[:HeadBytes]
	_, _ = rand.Read(head[nameBytes : nameBytes+keyBytes]) // it never fails
	binary.LittleEndian.PutUint32(head[nameBytes+keyBytes:], sumOf(head))
	return head, keyOf(head)
}

// Read takes the key of a file that begins with a head.
func Read(raw []byte, name string) (Key, error) {
	if len(raw) < HeadBytes || string(raw[:nameBytes]) != name || binary.LittleEndian.Uint32(raw[nameBytes+keyBytes:]) != sumOf(raw) {
		return Key{}, fmt.Errorf("%w: it does not begin as %q does", ErrNoHead, name)
	}
	return keyOf(raw), nil
}

// Checksum is that of what a frame consists of.
func (k Key) Checksum(parts ...[]byte) uint32 {
	sum := k.sum
	for _, part := range parts {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return sum
}
