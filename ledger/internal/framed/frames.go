package framed

import (
	"encoding/binary"

	"github.com/qioi/qioi/ledger/internal/checksums"
)

// keyed is where in a frame's head begins what its checksum is of: behind the body's length and the checksum itself.
const keyed = 4 + 4

// Frames is how the frames of one kind of log look: the body's length, the checksum of all that follows, the frame's
// number in the rest of the head, and the body.
type Frames struct {
	Head, Shortest int // lengths of a head, and of the shortest frame
	Most           int // Most is the most that a body holds
	Number         func(head []byte) uint64
}

// BodyLength is that of the frame at the beginning of raw by its head; 0: there is none, or not all of it.
func (f Frames) BodyLength(raw []byte) int {
	if len(raw) < f.Head {
		return 0
	}
	length := int64(binary.LittleEndian.Uint32(raw))
	if length > int64(f.Most) || length > int64(len(raw)-f.Head) {
		return 0
	}
	return int(length)
}

// Behind looks in tail, which begins with the frame of that number, unreadable, for any later one: what the disk has lost
// may be several. A client may have made its bytes look like the begin of a frame at every place, so none is summed up
// byte by byte.
func (f Frames) Behind(tail []byte, key Key, unreadable uint64) (number uint64, found bool) {
	sums := checksums.Of(tail)
	for at := f.Shortest; at+f.Shortest <= len(tail); at++ {
		head := tail[at : at+f.Head]
		number, length := f.Number(head), f.BodyLength(tail[at:])
		if length == 0 || number <= unreadable || number-unreadable > uint64(at/f.Shortest) { // there is no room for those between
			continue
		}
		body := at + f.Head
		if sums.Follow(key.Checksum(head[keyed:]), body, body+length) == binary.LittleEndian.Uint32(head[4:]) {
			return number, true
		}
	}
	return 0, false
}
