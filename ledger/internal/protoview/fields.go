// Package protoview reads messages without copying them: the bytes in what it reads are those that it was given. A
// transaction of 5 KB is a nest of a dozen messages, each of which the protobuf library copies out of the one around
// it, on each node again; most of what a node allocates was that.
//
// It reads the usual form alone: known fields of their type, messages once. It leaves every other form to the
// protobuf library, which so decides what is accepted and what it means.
package protoview

import "google.golang.org/protobuf/encoding/protowire"

// Tag is a field's number with its type, as it stands in front of the field.
type Tag byte

// Of number 1 to 15.
const (
	number Tag = 1 << 3
	varint     = Tag(protowire.VarintType)
	chunk      = Tag(protowire.BytesType)
)

// Number is the tag of a field that holds a number or truth value.
func Number(field int) Tag { return Tag(field)*number | varint }

// Chunk is the tag of a field that holds bytes, text, or a message.
func Chunk(field int) Tag { return Tag(field)*number | chunk }

// Fields gives take each field of a message in turn: bytes for a Chunk, value for a Number. It returns false when take
// does, when raw is no message, and when there are fields of other types or of numbers above 15.
func Fields(raw []byte, take func(tag Tag, bytes []byte, value uint64) bool) bool {
	for len(raw) > 0 {
		tag := Tag(raw[0])
		if tag < number || tag >= 0x80 {
			return false
		}
		raw = raw[1:]
		var bytes []byte
		var value uint64
		var n int
		switch tag % number {
		case varint:
			value, n = protowire.ConsumeVarint(raw)
		case chunk:
			bytes, n = protowire.ConsumeBytes(raw)
			bytes = bytes[:len(bytes):len(bytes)] // to append to it must not write over what follows
		default:
			return false
		}
		if n < 0 || !take(tag, bytes, value) {
			return false
		}
		raw = raw[n:]
	}
	return true
}
