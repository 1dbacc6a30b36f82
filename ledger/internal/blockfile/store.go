package blockfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Options tune a store; the zero value is what a node uses.
type Options struct {
	// SegmentBytes is the size from which a new segment is begun at the next block; 64 MiB by default.
	SegmentBytes int64
	// ReadOnly opens without a lock and changes nothing: a torn tail is left where it is.
	ReadOnly bool
	// Kept reports whether whoever opens can write again what is lost when the last segment is cut off at a damaged frame that
	// good ones follow, from a log or from other nodes; nil: it cannot. It is asked before anything is changed. What is cut off
	// stays in a file beside the segment (Torn.Aside).
	Kept func(Lost) bool
	// OpenFile replaces the file that is appended to, in tests of failing disks.
	OpenFile func(path string) (File, error)
}

func (o Options) openFile(path string) (File, error) {
	if o.OpenFile != nil {
		return o.OpenFile(path)
	}
	return openAppend(path)
}

const (
	defaultSegmentBytes = 64 << 20
	// flushBytes is how much may wait in memory before it is written to the file. What was put there just now is still in
	// the processor's cache; a megabyte is not, took three times as long a byte, and kept an orderer from its log for 2 ms.
	flushBytes = 64 << 10
)

// ErrNotFound says that the block is not in the store (yet).
var ErrNotFound = errors.New("block not found")

// ErrReadOnly is returned by every write to a store opened with ReadOnly.
var ErrReadOnly = errors.New("ledger is open for reading only")

// CorruptError says where a ledger is damaged.
type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("ledger file %s is corrupt at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Lost is what a cut at a damaged frame takes away.
type Lost struct {
	// Block is the first block that is not whole before the damaged frame.
	Block uint64
	// Seals are the seals that are good, without transactions: of the block before Block, and of blocks behind the damaged
	// frame.
	Seals []*commonpb.Block
	// Txs are the good transactions behind the last of Seals and behind the damaged frame, in their order. They are valid
	// during the call.
	Txs [][]byte
	// Begun is how many transactions of Block are whole before the damaged frame.
	Begun uint64
	// Unknown is how many bytes there are in no good frame, from the damaged frame on, or from the last of Seals behind it.
	Unknown int64
}

// Torn is an end that was cut off.
type Torn struct {
	File   string // File is the segment's path.
	Offset int64  // Offset is where in the file it began, in bytes.
	Bytes  int64  // Bytes is its length; 0: nothing was cut off.
	Aside  string // Aside is the path of a copy, where good frames were in it; else empty.
}

// TailTx is a transaction of the open block, as found at open.
type TailTx struct {
	Data []byte
	Flag byte
}

// place is where in its segment a block's first frame starts and its last one ends.
type place struct{ start, end int64 }

// Store is one channel's ledger files.
type Store struct {
	dir  string
	opts Options
	lock *os.File
	torn Torn

	// The open block as it was found at open.
	tail      []TailTx
	tailBlock uint64

	mu       sync.RWMutex
	segments []*segment
	placed   []*segment // finished ones whose places are in memory
	height   uint64
	open     int64  // where in the last segment the open block starts
	openTxs  uint64 // transactions in it
	buf      []byte // frames not yet written to the last segment
	err      error  // sticky
}

// Height is the number of sealed blocks. The newest may not be durable yet.
func (s *Store) Height() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.height
}

// OpenTail is the unsealed run of transactions found at open, and the block it belongs to.
func (s *Store) OpenTail() (block uint64, txs []TailTx) { return s.tailBlock, s.tail }

// TornBytes is how much Open cut off the end (or would have, with ReadOnly).
func (s *Store) TornBytes() int64 { return s.torn.Bytes }

// Torn is what Open cut off the end (or would have, with ReadOnly).
func (s *Store) Torn() Torn { return s.torn }

// Dir is the directory that holds the segments.
func (s *Store) Dir() string { return s.dir }

// AppendTx adds the next transaction of the open block. block and index must be the
// next position: anything else is a mistake of the caller and is refused. flag is the
// peer's validation code; an orderer passes 0.
func (s *Store) AppendTx(block, index uint64, tx []byte, flag byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if block != s.height || index != s.openTxs {
		return fmt.Errorf("ledger %s: transaction %d of block %d is out of order: %d of %d is next",
			s.dir, index, block, s.openTxs, s.height)
	}
	inner := protowire.SizeTag(1) + protowire.SizeBytes(len(tx))
	start, err := s.beginFrame(inner + 16)
	if err != nil {
		return err
	}
	s.buf = protowire.AppendTag(s.buf, 2, protowire.BytesType)
	s.buf = protowire.AppendVarint(s.buf, uint64(inner))
	s.buf = protowire.AppendTag(s.buf, 1, protowire.BytesType)
	s.buf = protowire.AppendBytes(s.buf, tx)
	s.endFrame(start, kindTx, flag)
	s.openTxs++
	return s.flushIfLarge()
}

// AppendSeal closes the open block.
func (s *Store) AppendSeal(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) error {
	return s.appendLast(&commonpb.Block{Header: header, Metadata: metadata}, kindSeal)
}

// AppendBlock adds a whole block; no block may be open.
func (s *Store) AppendBlock(block *commonpb.Block) error {
	return s.appendLast(block, kindBlock)
}

func (s *Store) appendLast(block *commonpb.Block, kind frameKind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := block.GetHeader().GetNumber()
	if number != s.height || (kind == kindBlock && s.openTxs > 0) {
		return fmt.Errorf("ledger %s: block %d is out of order: block %d with %d transactions is open",
			s.dir, number, s.height, s.openTxs)
	}
	start, err := s.beginFrame(proto.Size(block))
	if err != nil {
		return err
	}
	if s.buf, err = (proto.MarshalOptions{}).MarshalAppend(s.buf, block); err != nil {
		return s.fail(err)
	}
	s.endFrame(start, kind, 0)
	seg := s.last()
	seg.places = append(seg.places, place{s.open, seg.size})
	s.height++
	s.openTxs = 0
	return s.flushIfLarge()
}

// DropOpen takes the open block's transactions back, durably.
func (s *Store) DropOpen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil || s.openTxs == 0 {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	seg := s.last()
	if err := os.Truncate(seg.path, s.open); err != nil {
		return s.fail(ofFile("truncate", seg.path, err))
	}
	if err := seg.sync(); err != nil {
		return s.fail(ofFile("fsync", seg.path, err))
	}
	seg.size, s.openTxs = s.open, 0
	return nil
}

// beginFrame makes room for a payload of at most size bytes and starts a new segment where one is due.
func (s *Store) beginFrame(size int) (start int, err error) {
	if err := s.writable(); err != nil {
		return 0, err
	}
	if size > maxFrame {
		return 0, fmt.Errorf("ledger %s: an entry of %d bytes exceeds %d", s.dir, size, maxFrame)
	}
	if s.openTxs == 0 {
		if err := s.roll(); err != nil {
			return 0, err
		}
		s.open = s.last().size
	}
	s.buf, start = appendFrameHeader(s.buf)
	return start, nil
}

func (s *Store) endFrame(start int, kind frameKind, flag byte) {
	seg := s.last()
	finishFrame(s.buf, start, seg.nonce, seg.size, kind, flag)
	seg.size += int64(len(s.buf) - start)
}

func (s *Store) last() *segment { return s.segments[len(s.segments)-1] }

// roll begins a new segment when the last one is full; the old one is made durable first,
// so that only the last segment can ever have a torn tail.
func (s *Store) roll() error {
	limit := s.opts.SegmentBytes
	if limit == 0 {
		limit = defaultSegmentBytes
	}
	if len(s.segments) > 0 && s.last().size < limit {
		return nil
	}
	if len(s.segments) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.last().sync(); err != nil {
			return s.fail(ofFile("fsync", s.last().path, err))
		}
		s.writeIndex(s.last())
	}
	path := filepath.Join(s.dir, segmentName(len(s.segments)))
	seg, err := createSegment(s.opts, path, s.height)
	if err != nil {
		return s.fail(ofFile("new segment", path, err))
	}
	if len(s.segments) > 0 {
		s.keep(s.last())
	}
	s.segments = append(s.segments, seg)
	return nil
}

func (s *Store) flushIfLarge() error {
	if len(s.buf) < flushBytes {
		return nil
	}
	return s.flush()
}

func (s *Store) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	if _, err := s.last().file.Write(s.buf); err != nil {
		return s.fail(ofFile("write", s.last().path, err))
	}
	s.buf = s.buf[:0]
	return nil
}

// Sync returns when everything appended before it was called is durable.
func (s *Store) Sync() error {
	s.mu.Lock()
	if err := s.writable(); err != nil {
		s.mu.Unlock()
		return err
	}
	if err := s.flush(); err != nil || len(s.segments) == 0 {
		s.mu.Unlock()
		return err
	}
	seg := s.last()
	s.mu.Unlock()
	// Readers and the writer go on while the disk works.
	if err := seg.sync(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.fail(ofFile("fsync", seg.path, err))
	}
	return nil
}

func (s *Store) writable() error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if s.err != nil {
		return fmt.Errorf("refused after an earlier failure: %w", s.err)
	}
	return nil
}

// ofFile says what was done to which file, for fail to name the directory: os's own errors would name it once more.
func ofFile(op, path string, err error) error {
	if at := (*os.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s %s: %w", op, filepath.Base(path), err)
}

// fail makes an error sticky; the caller holds the lock.
func (s *Store) fail(err error) error {
	if s.err == nil {
		s.err = fmt.Errorf("ledger %s: %w", s.dir, err)
	}
	return s.err
}

// Close writes and syncs what is buffered and releases the files.
func (s *Store) Close() error {
	var errs []error
	if !s.opts.ReadOnly && s.err == nil {
		errs = append(errs, s.Sync())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segments {
		errs = append(errs, seg.file.Close())
	}
	if s.err == nil {
		s.err = os.ErrClosed
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
