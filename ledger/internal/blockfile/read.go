package blockfile

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/mapped"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Block reads a sealed block; ErrNotFound when there is none of that number.
func (s *Store) Block(number uint64) (*commonpb.Block, error) {
	seg, p, err := s.locate(number)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, p.end-p.start)
	if _, err := seg.file.ReadAt(raw, p.start); err != nil {
		return nil, fmt.Errorf("read block %d from %s: %w", number, seg.path, err)
	}
	// The payloads move together over the frame headers and become one message.
	message, offset := raw[:0], p.start
	for rest := raw; len(rest) > 0; {
		f, reason := decodeFrame(rest, seg.nonce, offset)
		if reason != "" {
			return nil, &CorruptError{File: seg.path, Offset: offset, Reason: reason}
		}
		rest = rest[f.size():]
		offset += int64(f.size())
		message = append(message, f.payload...)
	}
	block := &commonpb.Block{}
	if err := proto.Unmarshal(message, block); err != nil {
		return nil, &CorruptError{File: seg.path, Offset: p.start, Reason: fmt.Sprintf("block %d: %s", number, err)}
	}
	return block, nil
}

func (s *Store) locate(number uint64) (*segment, place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number >= s.height {
		return nil, place{}, fmt.Errorf("block %d of ledger %s (height %d): %w", number, s.dir, s.height, ErrNotFound)
	}
	seg := s.segments[sort.Search(len(s.segments), func(i int) bool { return s.segments[i].firstBlock > number })-1]
	places, err := s.placesOf(seg)
	if err != nil {
		return nil, place{}, err
	}
	p := places[number-seg.firstBlock]
	if seg == s.last() && p.end > seg.size-int64(len(s.buf)) {
		if s.err != nil {
			return nil, place{}, s.err
		}
		if err := s.flush(); err != nil {
			return nil, place{}, err
		}
	}
	return seg, p, nil
}

// placedSegments is of how many finished segments the places stay in memory: as many as readers are
// likely to be at. A place has 16 bytes, a segment up to some thousand of them.
const placedSegments = 8

// keep remembers that a finished segment's places are in memory, and lets go of the oldest.
func (s *Store) keep(seg *segment) {
	s.placed = append(s.placed, seg)
	if len(s.placed) > placedSegments {
		s.placed[0].places = nil
		s.placed = slices.Clone(s.placed[1:])
	}
}

// placesOf brings a segment's places into memory. The caller holds the lock, which is free while a file is read: commits
// need it.
func (s *Store) placesOf(seg *segment) ([]place, error) {
	if seg == s.last() || seg.places != nil {
		return seg.places, nil
	}
	s.mu.Unlock()
	seg.finding.Lock()
	defer seg.finding.Unlock()
	s.mu.Lock()
	if seg.places != nil { // another reader has found them
		return seg.places, nil
	}
	s.mu.Unlock()
	places, err := seg.findPlaces()
	s.mu.Lock()
	if err == nil {
		seg.places = places
		s.keep(seg)
	}
	return places, err
}

// findPlaces reads where a finished segment's blocks are, from its index or else from itself.
func (seg *segment) findPlaces() (places []place, err error) {
	if places, ok := seg.readIndex(seg.size); ok {
		return places, nil
	}
	err = readMapped(seg.path, func(data []byte) error {
		places, err = seg.scan(data)
		return err
	})
	return places, err
}

// readMapped has a file's contents read without copying them into the heap. A page that the disk does not give is an error
// of the file.
func readMapped(path string, read func(data []byte) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("ledger file: %w", err)
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("ledger file: %w", err)
	}
	if size == 0 {
		return read(nil)
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("ledger file: map %s: %w", path, err)
	}
	defer func() { _ = syscall.Munmap(data) }()
	if fault := mapped.Guard(data, func() { err = read(data) }); fault != nil {
		return fmt.Errorf("ledger file %s: %w", path, fault)
	}
	return err
}

// Iterator reads sealed blocks in order.
type Iterator struct {
	store *Store
	next  uint64
}

// Iterator begins at block from.
func (s *Store) Iterator(from uint64) *Iterator { return &Iterator{store: s, next: from} }

// Next returns the next block, or io.EOF at the present end of the ledger; it may be
// called again when the ledger has grown.
func (it *Iterator) Next() (*commonpb.Block, error) {
	if it.next >= it.store.Height() {
		return nil, io.EOF
	}
	block, err := it.store.Block(it.next)
	if err == nil {
		it.next++
	}
	return block, err
}
