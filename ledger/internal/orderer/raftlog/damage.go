package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/durable"
)

// ErrDamaged is told of a log that a crash alone does not leave so: entries or votes that others have counted may be missing.
var ErrDamaged = errors.New("damaged log")

// Remedy is what to do about a log that lacks what others have counted.
const Remedy = "restore the log as it was, or remove this orderer from the channel's consenters, delete its folder of the channel, " +
	"and have it join as a new one"

const (
	lengthBytes = 8
	// headMost is the most bytes of a record before its data: type, checksum, and the data's length.
	headMost = 2 + 1 + 5 + 1 + 5
	// sector is what a disk writes whole or not at all. One that it did not write has zeroes where a frame would go on.
	sector = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// check reads the log, and errs where it is damaged. etcd's own reader takes a length that was zeroed or grew for the log's
// end, and cuts off all that follows. A crash tears the last sync alone, so that what it leaves out is told from damage by what
// is there: a sector that was never written, or the file's end, and no frame that a later sync has written.
func (l *Log) check() (*history, error) {
	h := &history{}
	files, err := l.files(".wal")
	if err != nil || len(files) == 0 {
		return h, err
	}
	last := files[len(files)-1]
	if err := durable.FromDisk(last); err != nil { // all others were synced before it was begun
		return nil, err
	}
	chain, known := uint32(0), false
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var at int
		at, chain = intact(raw, chain, known, h.add)
		known = true
		var why string
		switch {
		case len(bytes.TrimRight(raw[at:], "\x00")) == 0:
		case path == last:
			why, h.torn, h.whole = torn(raw, at), path, int64(at)
		default:
			why = "a later file was begun after it"
		}
		if why == "" && at == 0 {
			why = "it holds nothing"
		}
		if why != "" {
			return nil, fmt.Errorf("%s: %w at offset %d: %s; %s", path, ErrDamaged, at, why, Remedy)
		}
	}
	return h, nil
}

// intact is where the frames end of which each is as it was written, and the checksum up to there. The one before is of the
// file before, where that is known. Each is given to take.
func intact(raw []byte, chain uint32, known bool, take func(frame)) (at int, _ uint32) {
	for n := 0; ; n++ {
		f, ok := frameAt(raw[at:])
		// Each file begins with the checksum of the one before and metadata, and no other frame is of these types. The
		// checksum does not cover the type.
		if !ok || (n == 0) != (f.kind == wal.CrcType) || (n == 1) != (f.kind == wal.MetadataType) {
			return at, chain
		}
		if f.kind == wal.CrcType && known && f.sum != chain || f.kind != wal.CrcType && !f.follows(chain) {
			return at, chain
		}
		at += f.size
		chain = f.sum
		take(f)
	}
}

// torn says why a crash has not left the frame at that place, which is not intact, as it is. Empty: it may have.
func torn(raw []byte, at int) string {
	if len(raw)-at < lengthBytes {
		return ""
	}
	if noLength(raw[at:]) {
		return tornAway(raw, at)
	}
	record, size, ok := measure(raw[at:])
	if !ok {
		return "its length is none"
	}
	ends := size > len(raw)-at // the file does, within the frame
	head := at + lengthBytes + headMost
	if _, _, ok := headOf(raw[at+lengthBytes:], record); !ok && head <= len(raw) && !lost(raw, at, head) {
		return "its length is not its record's"
	}
	switch {
	case ends:
		return ""
	case !lost(raw, at, at+size):
		return "its bytes are not those that were written"
	case noLength(raw[at+size:]): // the sector has the next frame's as well
		return tornAway(raw, at+size)
	case synced(raw[at+size:]):
		return fmt.Sprintf("frames that were synced later are intact at offset %d", at+size)
	}
	return ""
}

func noLength(raw []byte) bool {
	return len(raw) >= lengthBytes && binary.LittleEndian.Uint64(raw) == 0
}

// tornAway is torn of a frame without a length. Where the next one begins is not known. A client may have made its
// transaction look like frames, so that a crash which lost this sector and not the next ones counts as damage: that is told
// once too often rather than once too seldom.
func tornAway(raw []byte, at int) string {
	if !lost(raw, at, at+1) {
		return "it has no length"
	}
	for next := (at/sector + 1) * sector; next < len(raw); next += lengthBytes {
		if raw[next] != 0 && synced(raw[next:]) {
			return fmt.Sprintf("it is missing, and frames that were synced later are intact at offset %d", next)
		}
	}
	return ""
}

// lost reports whether one of the sectors between two places, the first from its place on, was never written.
func lost(raw []byte, from, to int) bool {
	for from < min(to, len(raw)) {
		end := min((from/sector+1)*sector, len(raw))
		if len(bytes.TrimRight(raw[from:end], "\x00")) == 0 {
			return true
		}
		from = end
	}
	return false
}

// synced reports whether the frames at the beginning of raw are of more than one sync, so that what was written before them
// was durable. Each save is one, and ends with the state (Log.Save).
func synced(raw []byte) bool {
	f, ok := frameAt(raw)
	for ok && f.kind == wal.EntryType {
		ok = f.next(raw, &raw)
		f, _ = frameAt(raw)
	}
	return ok && f.next(raw, &raw)
}

// frame is one of etcd's log: a length, and a record that is padded to a multiple of eight bytes.
type frame struct {
	size int // with the length and the padding
	kind int64
	sum  uint32 // of the data of all frames up to this one
	data []byte
}

func (f frame) follows(chain uint32) bool { return crc32.Update(chain, castagnoli, f.data) == f.sum }

// next reports whether a frame follows this one, at the beginning of raw, and leaves what begins with it in rest.
func (f frame) next(raw []byte, rest *[]byte) bool {
	*rest = raw[f.size:]
	after, ok := frameAt(*rest)
	return ok && after.follows(f.sum)
}

// frameAt reads the frame at the beginning of raw, whose checksum is the caller's to check; not ok: there is none, or not all of it.
func frameAt(raw []byte) (f frame, ok bool) {
	record, size, ok := measure(raw)
	if !ok || size > len(raw) {
		return frame{}, false
	}
	f, data, ok := headOf(raw[lengthBytes:], record)
	if !ok || len(bytes.TrimRight(raw[lengthBytes+record:size], "\x00")) > 0 {
		return frame{}, false
	}
	f.size, f.data = size, raw[lengthBytes+data:lengthBytes+record]
	// The checksum does not cover the type. A state's term would be an entry's type, and an entry's type, which is 0 where
	// it has no data, a state's term. A snapshot lacks a field that an entry has.
	switch f.kind {
	case wal.EntryType:
		entry := &raftpb.Entry{}
		return f, holds(f.data, entry) && (entry.GetType() == raftpb.EntryNormal || len(entry.GetData()) > 0)
	case wal.StateType:
		state := &raftpb.HardState{}
		return f, holds(f.data, state) && state.GetTerm() > 0
	case wal.SnapshotType:
		return f, holds(f.data, &walpb.Snapshot{})
	}
	return f, true
}

func holds(data []byte, m proto.Message) bool {
	return proto.Unmarshal(data, m) == nil && len(m.ProtoReflect().GetUnknown()) == 0
}

// measure reads a frame's length: that of its record, and of the whole. The highest byte says what the padding is.
func measure(raw []byte) (record, size int, ok bool) {
	if len(raw) < lengthBytes {
		return 0, 0, false
	}
	length := binary.LittleEndian.Uint64(raw)
	record = int(length & (1<<56 - 1))
	pad, flags := -record&7, uint64(0)
	if pad > 0 {
		flags = 0x80 | uint64(pad)
	}
	return record, lengthBytes + record + pad, record > 0 && length>>56 == flags
}

// headOf reads the fields of a record before its data, and gives where the data begins. It reports false where they are not
// those of a record of that length.
func headOf(raw []byte, record int) (f frame, data int, ok bool) {
	raw = raw[:min(len(raw), record, headMost)]
	if len(raw) < 4 || raw[0] != 1<<3 || raw[1] < byte(wal.MetadataType) || raw[1] > byte(wal.SnapshotType) || raw[2] != 2<<3 {
		return frame{}, 0, false
	}
	sum, n := protowire.ConsumeVarint(raw[3:])
	if n < 0 || n != protowire.SizeVarint(sum) || sum > math.MaxUint32 {
		return frame{}, 0, false
	}
	f, data = frame{kind: int64(raw[1]), sum: uint32(sum)}, 3+n
	if data == record { // some have no data
		return f, data, true
	}
	if len(raw) == data || raw[data] != 3<<3|byte(protowire.BytesType) {
		return frame{}, 0, false
	}
	length, n := protowire.ConsumeVarint(raw[data+1:])
	data += 1 + n
	return f, data, n > 0 && n == protowire.SizeVarint(length) && uint64(data)+length == uint64(record)
}
