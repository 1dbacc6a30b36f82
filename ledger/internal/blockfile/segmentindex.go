package blockfile

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/qioi/qioi/ledger/internal/ops"
)

var log = ops.Logger("blockfile")

// A finished segment has a small file beside it that says where its blocks are, so that a
// node with a long chain need not read all of it to start. The frames that are not read at
// open are checked when they are read. Where the file is missing or does not fit, the segment is
// read and checked as a whole, as the last one always is.
//
// It holds: magic, the segment's random number, number of its first block and size, then
// start and end of each block, and the crc of all that.
const (
	indexMagic      = "QIOISIX1"
	indexHeaderSize = 32
	indexEntrySize  = 16
)

func indexPath(segmentPath string) string {
	return strings.TrimSuffix(segmentPath, ".blk") + ".idx"
}

// writeIndex is done once a segment is durable and finished. A failure only costs time at
// the next start, or when a block is read, and a torn file is seen by its checksum: nothing is synced, and no error given.
func (s *Store) writeIndex(seg *segment) {
	out := make([]byte, indexHeaderSize, indexHeaderSize+len(seg.places)*indexEntrySize)
	copy(out, indexMagic)
	binary.LittleEndian.PutUint64(out[8:], seg.nonce)
	binary.LittleEndian.PutUint64(out[16:], seg.firstBlock)
	binary.LittleEndian.PutUint64(out[24:], uint64(seg.size))
	for _, p := range seg.places {
		out = binary.LittleEndian.AppendUint64(out, uint64(p.start))
		out = binary.LittleEndian.AppendUint64(out, uint64(p.end))
	}
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	if err := os.WriteFile(indexPath(seg.path), out, 0o644); err != nil {
		log.Warnf("%s: all of %s is read to find its blocks", err, filepath.Base(seg.path))
	}
}

// readIndex reads where a finished segment's blocks are, if there is an index that fits.
func (seg *segment) readIndex(fileSize int64) ([]place, bool) {
	raw, err := os.ReadFile(indexPath(seg.path))
	body := len(raw) - crc32.Size
	if err != nil || body <= indexHeaderSize || (body-indexHeaderSize)%indexEntrySize != 0 ||
		crc32.Checksum(raw[:body], castagnoli) != binary.LittleEndian.Uint32(raw[body:]) ||
		string(raw[:8]) != indexMagic || binary.LittleEndian.Uint64(raw[8:]) != seg.nonce ||
		binary.LittleEndian.Uint64(raw[16:]) != seg.firstBlock || binary.LittleEndian.Uint64(raw[24:]) != uint64(fileSize) {
		return nil, false
	}
	places := make([]place, 0, (body-indexHeaderSize)/indexEntrySize)
	for at := indexHeaderSize; at < body; at += indexEntrySize {
		places = append(places, place{int64(binary.LittleEndian.Uint64(raw[at:])), int64(binary.LittleEndian.Uint64(raw[at+8:]))})
	}
	return places, true
}
