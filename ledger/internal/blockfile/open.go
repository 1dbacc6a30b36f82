package blockfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Open reads and checks the ledger in dir, which is created when missing. A torn tail
// is cut off (see TornBytes); damage elsewhere gives a *CorruptError and changes
// nothing, unless Options.Kept says that it can be written again. A second writer of the same directory is refused.
func Open(dir string, opts Options) (*Store, error) {
	s := &Store{dir: dir, opts: opts}
	if err := s.prepareDir(); err != nil {
		return nil, err
	}
	err := s.load()
	if err == nil {
		return s, nil
	}
	for _, seg := range s.segments {
		_ = seg.file.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
	return nil, err
}

func (s *Store) prepareDir() error {
	if s.opts.ReadOnly {
		return nil
	}
	if err := durable.MakeDir(s.dir); err != nil {
		return fmt.Errorf("ledger directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("ledger directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fmt.Errorf("ledger directory %s is in use by another process", s.dir)
	}
	s.lock = lock
	return nil
}

func (s *Store) load() error {
	paths, err := listSegments(s.dir)
	if err != nil {
		return err
	}
	if !s.opts.ReadOnly {
		for _, path := range paths[max(0, len(paths)-2):] { // the newest may have been begun just now
			if err := durable.FromDisk(path); err != nil {
				return fmt.Errorf("ledger file: %w", err)
			}
		}
	}
	for i, path := range paths {
		if err := s.loadSegment(path, i == len(paths)-1); err != nil {
			return err
		}
	}
	s.tailBlock = s.height
	return s.settle()
}

// settle makes what was found durable. A process that was killed may have left frames that only the page cache has, and
// whoever opens the ledger tells others of them.
func (s *Store) settle() error {
	if s.opts.ReadOnly || len(s.segments) == 0 {
		return nil
	}
	if err := s.last().sync(); err != nil {
		return fmt.Errorf("ledger file %s: fsync: %w", s.last().path, err)
	}
	return nil
}

func (s *Store) loadSegment(path string, isLast bool) error {
	return readMapped(path, func(data []byte) error { return s.loadMapped(path, data, isLast) })
}

func (s *Store) loadMapped(path string, data []byte, isLast bool) error {
	nonce, first, reason := decodeSegmentHeader(data)
	if reason != "" {
		// The header is durable before anything follows it. Alone, a power cut may leave less of it, or zeroes.
		if isLast && len(data) <= segmentHeaderSize {
			return s.dropSegment(path, int64(len(data)))
		}
		return &CorruptError{File: path, Reason: reason}
	}
	if first != s.height {
		return &CorruptError{File: path, Reason: fmt.Sprintf("segment begins with block %d, block %d is due", first, s.height)}
	}
	file, err := s.openSegment(path)
	if err != nil {
		return fmt.Errorf("ledger file: %w", err)
	}
	seg := &segment{path: path, file: file, nonce: nonce, firstBlock: first, size: segmentHeaderSize}
	s.segments = append(s.segments, seg)
	// A ledger that is opened for reading alone is opened to be checked.
	if !isLast && !s.opts.ReadOnly {
		if places, ok := seg.readIndex(int64(len(data))); ok {
			seg.size = int64(len(data))
			s.height += uint64(len(places))
			return nil
		}
	}
	if !isLast {
		return s.loadFinished(seg, data)
	}
	scan := scanner{number: first, at: segmentHeaderSize}
	for scan.at < int64(len(data)) {
		f, reason := decodeFrame(data[scan.at:], nonce, scan.at)
		if reason != "" {
			behind := findFrames(data[scan.at:], nonce, scan.at)
			if len(behind) > 0 && !s.kept(&scan, int64(len(data)), behind) {
				return &CorruptError{File: path, Offset: scan.at, Reason: reason}
			}
			s.take(seg, &scan)
			return s.truncate(seg, data, len(behind) > 0)
		}
		if reason := scan.note(f); reason != "" {
			return &CorruptError{File: path, Offset: scan.at, Reason: reason}
		}
	}
	s.take(seg, &scan)
	return nil
}

// kept reports whether what begins with the damage at the scanner's place can be written again.
func (s *Store) kept(scan *scanner, end int64, behind []frame) bool {
	if s.opts.Kept == nil {
		return false
	}
	lost := Lost{Block: scan.number, Begun: uint64(len(scan.txs)), Unknown: end - scan.at}
	switch {
	case scan.sealed != nil:
		behind = append([]frame{{kind: kindSeal, payload: scan.sealed}}, behind...)
	case scan.number > 0:
		before, err := s.Block(scan.number - 1)
		if err != nil {
			return false
		}
		before.Data = nil
		lost.Seals = append(lost.Seals, before)
	}
	for _, f := range behind {
		if f.kind == kindTx {
			tx, ok := txOf(f.payload)
			if !ok {
				return false
			}
			lost.Txs = append(lost.Txs, tx)
			lost.Unknown -= int64(f.size())
			continue
		}
		var seal commonpb.Block
		if err := proto.Unmarshal(f.payload, &seal); err != nil || seal.Header == nil {
			return false
		}
		if f.end > scan.at {
			lost.Txs, lost.Unknown = nil, end-f.end
		}
		seal.Data = nil
		lost.Seals = append(lost.Seals, &seal)
	}
	return s.opts.Kept(lost)
}

// take makes what was found in the last segment the store's own.
func (s *Store) take(seg *segment, scan *scanner) {
	seg.size, seg.places = scan.at, scan.places
	s.height, s.open, s.openTxs = scan.number, scan.start, uint64(len(scan.txs))
	s.tail = nil
	for _, f := range scan.txs {
		tx, _ := txOf(f.payload) // note has looked at it
		s.tail = append(s.tail, TailTx{Data: bytes.Clone(tx), Flag: f.flag})
	}
}

// loadFinished reads a segment that is complete, and has its index written again.
func (s *Store) loadFinished(seg *segment, data []byte) error {
	var err error
	if seg.places, err = seg.scan(data); err != nil {
		return err
	}
	seg.size = int64(len(data))
	s.height += uint64(len(seg.places))
	if !s.opts.ReadOnly {
		s.writeIndex(seg)
	}
	s.keep(seg)
	return nil
}

// scanner follows the frames of one segment.
type scanner struct {
	number uint64 // of the open block
	at     int64
	start  int64   // of the open block
	txs    []frame // of the open block
	places []place
	sealed []byte // payload that ended the block before the open one; nil: that block is not of this segment
}

// note takes the good frame at c.at into account, or says why it cannot be there.
func (c *scanner) note(f frame) (reason string) {
	if len(c.txs) == 0 {
		c.start = c.at
	}
	if f.kind == kindTx {
		if _, ok := txOf(f.payload); !ok {
			return "transaction frame does not parse"
		}
		c.txs = append(c.txs, f)
		c.at += int64(f.size())
		return ""
	}
	if f.kind == kindBlock && len(c.txs) > 0 {
		return "whole block within an open block"
	}
	number, err := blockNumber(f.payload)
	if err != nil {
		return "block header does not parse"
	}
	if number != c.number {
		return fmt.Sprintf("block %d found where block %d is due", number, c.number)
	}
	c.at += int64(f.size())
	c.places = append(c.places, place{c.start, c.at})
	c.number, c.txs, c.sealed = c.number+1, c.txs[:0], f.payload
	return ""
}

// scan finds the blocks of a finished segment.
func (seg *segment) scan(data []byte) ([]place, error) {
	c := scanner{number: seg.firstBlock, at: segmentHeaderSize}
	for c.at < int64(len(data)) {
		f, reason := decodeFrame(data[c.at:], seg.nonce, c.at)
		if reason == "" {
			reason = c.note(f)
		}
		if reason != "" {
			return nil, &CorruptError{File: seg.path, Offset: c.at, Reason: reason}
		}
	}
	if len(c.txs) > 0 {
		return nil, &CorruptError{File: seg.path, Offset: c.at, Reason: "segment ends within a block"}
	}
	return c.places, nil
}

func txOf(payload []byte) ([]byte, bool) {
	data, ok := onlyField(payload, 2)
	if !ok {
		return nil, false
	}
	return onlyField(data, 1)
}

func onlyField(b []byte, want protowire.Number) ([]byte, bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num != want || typ != protowire.BytesType {
		return nil, false
	}
	v, m := protowire.ConsumeBytes(b[n:])
	return v, m >= 0 && n+m == len(b)
}

// blockNumber finds the header without decoding the transactions of a whole block.
func blockNumber(payload []byte) (uint64, error) {
	for len(payload) > 0 {
		num, typ, n := protowire.ConsumeTag(payload)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		m := protowire.ConsumeFieldValue(num, typ, payload[n:])
		if m < 0 {
			return 0, protowire.ParseError(m)
		}
		if num == 1 && typ == protowire.BytesType {
			raw, _ := protowire.ConsumeBytes(payload[n:])
			var header commonpb.BlockHeader
			err := proto.Unmarshal(raw, &header)
			return header.GetNumber(), err
		}
		payload = payload[n+m:]
	}
	return 0, errors.New("no header")
}

func (s *Store) openSegment(path string) (File, error) {
	if s.opts.ReadOnly {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return osFile{f}, nil
	}
	return s.opts.openFile(path)
}

// truncate cuts a torn tail off: a later torn write must not be able to make old bytes look like part of a frame.
// settle makes that durable. Of a tail with good frames a copy stays, which is durable before anything is cut off.
func (s *Store) truncate(seg *segment, data []byte, good bool) error {
	s.torn = Torn{File: seg.path, Offset: seg.size, Bytes: int64(len(data)) - seg.size}
	if s.opts.ReadOnly {
		return nil
	}
	if good {
		var err error
		if s.torn.Aside, err = setAside(seg.path, data[seg.size:]); err != nil {
			return fmt.Errorf("ledger file %s: a copy of its damaged end: %w", seg.path, err)
		}
	}
	if err := os.Truncate(seg.path, seg.size); err != nil {
		return fmt.Errorf("ledger file: %w", err)
	}
	return nil
}

// setAside writes a segment's tail to a file of its own, beside those of earlier ones.
func setAside(segment string, tail []byte) (path string, err error) {
	path = segment + ".damaged"
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		path = fmt.Sprintf("%s-%d.damaged", segment, n)
	}
	return path, durable.WriteFile(path, tail)
}

// dropSegment removes a last segment that a crash left without its header.
func (s *Store) dropSegment(path string, size int64) error {
	s.torn = Torn{File: path, Bytes: size}
	if s.opts.ReadOnly {
		return s.reopenLast()
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("ledger file: %w", err)
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return err
	}
	return s.reopenLast()
}

// reopenLast makes the segment before a dropped one the last again: its places must be in memory, and stay there.
func (s *Store) reopenLast() (err error) {
	if len(s.segments) == 0 {
		return nil
	}
	seg := s.last()
	s.placed = slices.DeleteFunc(s.placed, func(one *segment) bool { return one == seg })
	if seg.places == nil {
		seg.places, err = seg.findPlaces()
	}
	return err
}
