package blockfile

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/qioi/qioi/ledger/internal/checksums"
)

// frameKind says what part of a block a frame's payload is.
type frameKind byte

const (
	kindTx    frameKind = 1 // one transaction: field 2 of common.Block, holding one entry
	kindSeal  frameKind = 2 // header and metadata: fields 1 and 3; ends the block
	kindBlock frameKind = 3 // a whole block
)

// A frame is {u32 length of payload, u32 crc, u8 kind, u8 flag, payload}, little endian.
const (
	frameHeaderSize = 10
	// maxFrame bounds one payload: a channel's largest transaction (channelconfig.MostBytes), and 4 MiB around it.
	maxFrame = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type frame struct {
	kind    frameKind
	flag    byte
	payload []byte // aliases the buffer it was read from
	end     int64  // where it ends in the segment; of those that findFrames gives
}

func (f frame) size() int { return frameHeaderSize + len(f.payload) }

// appendFrameHeader reserves the header of a frame whose payload is appended next;
// finishFrame fills it in. start is the frame's index in buf.
func appendFrameHeader(buf []byte) (out []byte, start int) {
	start = len(buf)
	return append(buf, make([]byte, frameHeaderSize)...), start
}

func finishFrame(buf []byte, start int, nonce uint64, offset int64, kind frameKind, flag byte) {
	head := buf[start : start+frameHeaderSize]
	payload := buf[start+frameHeaderSize:]
	binary.LittleEndian.PutUint32(head, uint32(len(payload)))
	head[8], head[9] = byte(kind), flag
	binary.LittleEndian.PutUint32(head[4:], checksum(nonce, offset, head, payload))
}

func checksum(nonce uint64, offset int64, head, payload []byte) uint32 {
	return crc32.Update(headSum(nonce, offset, head), castagnoli, payload)
}

// headSum is the checksum as far as the payload.
func headSum(nonce uint64, offset int64, head []byte) uint32 {
	var key [22]byte
	binary.LittleEndian.PutUint64(key[:], nonce)
	binary.LittleEndian.PutUint64(key[8:], uint64(offset))
	copy(key[16:], head[:4])
	copy(key[20:], head[8:10])
	return crc32.Checksum(key[:], castagnoli)
}

// decodeFrame reads the frame at the start of buf, which is what the segment
// holds from offset on. It returns the reason when there is none.
func decodeFrame(buf []byte, nonce uint64, offset int64) (frame, string) {
	size, reason := frameSize(buf)
	if reason != "" {
		return frame{}, reason
	}
	f := frame{kind: frameKind(buf[8]), flag: buf[9], payload: buf[frameHeaderSize:size]}
	if checksum(nonce, offset, buf[:frameHeaderSize], f.payload) != binary.LittleEndian.Uint32(buf[4:]) {
		return frame{}, "checksum mismatch"
	}
	return f, ""
}

// frameSize is that of the frame at the start of buf by its header, or the reason why none can be there.
func frameSize(buf []byte) (size int, reason string) {
	if len(buf) < frameHeaderSize {
		return 0, "incomplete frame header"
	}
	length := binary.LittleEndian.Uint32(buf)
	if kind := frameKind(buf[8]); kind < kindTx || kind > kindBlock {
		return 0, "unknown frame kind"
	}
	if length > maxFrame {
		return 0, "frame length out of bounds"
	}
	if int(length) > len(buf)-frameHeaderSize {
		return 0, "incomplete frame"
	}
	return frameHeaderSize + int(length), ""
}

// findFrames looks for the good frames that start after the first byte of buf: they
// tell damage in the middle of a file from a torn tail. A client may have made its
// transaction look like the begin of a frame at every place, so none is summed up byte by byte.
func findFrames(buf []byte, nonce uint64, offset int64) (good []frame) {
	sums := checksums.Of(buf)
	for i := 1; i+frameHeaderSize <= len(buf); i++ {
		size, reason := frameSize(buf[i:])
		if reason != "" {
			continue
		}
		head := buf[i : i+frameHeaderSize]
		crc := sums.Follow(headSum(nonce, offset+int64(i), head), i+frameHeaderSize, i+size)
		if crc == binary.LittleEndian.Uint32(head[4:]) {
			good = append(good, frame{kind: frameKind(head[8]), flag: head[9], payload: buf[i+frameHeaderSize : i+size], end: offset + int64(i+size)})
			i += size - 1
		}
	}
	return good
}
