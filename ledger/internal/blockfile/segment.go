package blockfile

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/durable"
)

// A segment's header: magic, random number, number of its first block, crc of these.
const (
	segmentMagic      = "QIOILDG1"
	segmentHeaderSize = 28
)

// File is what the store needs of the file it appends to; tests inject failures here.
type File interface {
	Write(p []byte) (int, error)
	ReadAt(p []byte, off int64) (int, error)
	Sync() error
	Close() error
}

// segment is one file. Its fields are fixed once it is open, except size and places, which are under the store's lock.
type segment struct {
	path       string
	file       File
	nonce      uint64
	firstBlock uint64
	size       int64 // bytes in the file and in the store's buffer
	// places are those of its blocks: always there for the last segment, else when they were needed lately.
	places  []place
	finding sync.Mutex // one reader at a time reads them from the disk; it is taken before the store's lock

	syncing sync.Mutex // no other is taken while it is held
	failed  error      // of a sync; guarded by syncing
}

// sync makes durable what was written. The kernel tells of what the disk refused once for each open file: of two that sync
// at once the other would hear that all is well. So one syncs after the other, and none after one that has failed.
func (seg *segment) sync() error {
	seg.syncing.Lock()
	defer seg.syncing.Unlock()
	if seg.failed == nil {
		seg.failed = seg.file.Sync()
	}
	return seg.failed
}

func segmentName(seq int) string { return fmt.Sprintf("segment-%06d.blk", seq) }

func listSegments(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("ledger directory: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "segment-") && strings.HasSuffix(e.Name(), ".blk") {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	sort.Strings(names)
	for i, name := range names {
		if filepath.Base(name) != segmentName(i) {
			return nil, &CorruptError{File: filepath.Join(dir, segmentName(i)), Reason: "segment is missing"}
		}
	}
	return names, nil
}

func encodeSegmentHeader(nonce, firstBlock uint64) []byte {
	head := make([]byte, segmentHeaderSize)
	copy(head, segmentMagic)
	binary.LittleEndian.PutUint64(head[8:], nonce)
	binary.LittleEndian.PutUint64(head[16:], firstBlock)
	binary.LittleEndian.PutUint32(head[24:], crc32.Checksum(head[:24], castagnoli))
	return head
}

func decodeSegmentHeader(head []byte) (nonce, firstBlock uint64, reason string) {
	switch {
	case len(head) < segmentHeaderSize:
		return 0, 0, "incomplete segment header"
	case string(head[:8]) != segmentMagic:
		return 0, 0, "not a ledger segment (magic " + segmentMagic + " is expected)"
	case crc32.Checksum(head[:24], castagnoli) != binary.LittleEndian.Uint32(head[24:]):
		return 0, 0, "segment header checksum mismatch"
	}
	return binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:]), ""
}

// createSegment makes the file and its directory entry durable before anything
// is appended to it.
func createSegment(opts Options, path string, firstBlock uint64) (*segment, error) {
	file, err := opts.openFile(path)
	if err != nil {
		return nil, err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	nonce := binary.LittleEndian.Uint64(random[:])
	if _, err := file.Write(encodeSegmentHeader(nonce, firstBlock)); err != nil {
		_ = file.Close()
		return nil, err
	}
	if err := file.Sync(); err != nil {
		_ = file.Close()
		return nil, err
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &segment{path: path, file: file, nonce: nonce, firstBlock: firstBlock, size: segmentHeaderSize}, nil
}

// osFile syncs with fdatasync, which leaves out the file's times.
type osFile struct{ *os.File }

func (f osFile) Sync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

func openAppend(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}
