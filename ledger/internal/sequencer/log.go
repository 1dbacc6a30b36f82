// Package sequencer is a log of blobs with three calls: order(blob) -> number, get(n), last. It stands behind the orderers
// of a channel, which are its facades (package consensus/sequencer): they do TLS towards clients, signatures and blocks.
// There is one of it and it has no replica: it is the lower bound of what ordering costs.
package sequencer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/framed"
	"github.com/qioi/qioi/ledger/internal/mapped"
)

const (
	logName = "log"
	logKind = "qioisequ"
	// frameHead is the length of what follows the head, its checksum, and the frame's place among the frames. One frame is
	// what was written at once. Of each blob it holds the length, the chain after the blob, and the blob.
	frameHead = 4 + 4 + 8
	// blobHead is at most what a frame holds of a blob besides the blob.
	blobHead = binary.MaxVarintLen32 + sha256.Size
	// shortest is a frame of one empty blob, most what a frame holds.
	shortest = frameHead + 1 + sha256.Size
	most     = math.MaxInt32
)

var (
	// ErrDamaged is told of a log that a crash alone does not leave so: blobs that were answered may be missing.
	ErrDamaged = errors.New("damaged log")
	// ErrPast is told of a number that comes after the next one.
	ErrPast = errors.New("no such number yet")
	// ErrInUse is told of a log that another process has open.
	ErrInUse = errors.New("another process has the log open")
)

// Chain is the running hash over all blobs up to one.
type Chain [sha256.Size]byte

// After is the chain after one blob more.
func (c Chain) After(blob []byte) Chain {
	own := sha256.Sum256(blob)
	var both [2 * sha256.Size]byte
	copy(both[:], c[:])
	copy(both[sha256.Size:], own[:])
	return sha256.Sum256(both[:])
}

// place is where a blob lies in the file.
type place struct {
	at    int64
	bytes uint32
}

// Log is one channel's. One goroutine appends; any may read.
type Log struct {
	file *os.File

	// Of the goroutine that appends:
	sink   *os.File // what is written here is durable, but where the log is volatile
	key    framed.Key
	end    int64
	ahead  clearing
	frames uint64
	buf    []byte

	mu     sync.Mutex
	places []place       // of the blobs that may be read
	newest [][]byte      // the blobs of the last append, for those who have read all before
	chain  Chain         // after the last of them
	more   chan struct{} // closes some time after there are more, by Tell
}

// Open reads the log in dir, or begins one. What a crash has left half written was never answered, and is cut off. A
// volatile log leaves it to the kernel when what is appended gets to the disk.
func Open(dir string, volatile bool) (*Log, error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, logName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		head, _ := framed.Begin(logKind)
		err := durable.Replace(dir, logName, nil, func(w *durable.Writer) error {
			_, err := w.Write(head)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := durable.FromDisk(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	flags := os.O_WRONLY
	zeros := clearing{file: file, to: math.MaxInt64}
	if !volatile {
		flags, zeros.to = flags|unix.O_DSYNC, 0
	}
	sink, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l := &Log{file: file, sink: sink, ahead: zeros, more: make(chan struct{})}
	if err := l.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), l.Close())
	}
	return l, nil
}

func (l *Log) recover() error {
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrInUse
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	raw, err := unix.Mmap(int(l.file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	var unread error
	fault := mapped.Guard(raw, func() { unread = l.read(raw) })
	if err := errors.Join(fault, unread, unix.Munmap(raw)); err != nil {
		return err
	}
	l.ahead.to = max(l.ahead.to, l.end)
	if err := l.file.Truncate(l.end); err != nil {
		return err
	}
	// A process that was killed may have written without a sync what it is going to be asked for.
	return unix.Fdatasync(int(l.file.Fd()))
}

// read takes over the frames, and checks the chain.
func (l *Log) read(raw []byte) (err error) {
	if l.key, err = framed.Read(raw, logKind); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	l.end = framed.HeadBytes
	for {
		body := l.frameAt(raw[l.end:], l.frames)
		if body == nil {
			break
		}
		at := l.end + frameHead
		for len(body) > 0 {
			n, used := binary.Uvarint(body)
			if used <= 0 || len(body)-used < sha256.Size || n > uint64(len(body)-used-sha256.Size) {
				return fmt.Errorf("%w: frame %d", ErrDamaged, l.frames)
			}
			start := used + sha256.Size
			blob := body[start : start+int(n)]
			l.chain = l.chain.After(blob)
			if !bytes.Equal(body[used:start], l.chain[:]) {
				return fmt.Errorf("%w: the chain of hashes breaks at number %d", ErrDamaged, len(l.places)+1)
			}
			l.places = append(l.places, place{at + int64(start), uint32(n)})
			at += int64(start) + int64(n)
			body = body[start+int(n):]
		}
		l.end = at
		l.frames++
	}
	// The frame that a crash cut short is the last: a later one would have been written after it was durable.
	if later, found := shape.Behind(raw[l.end:], l.key, l.frames); found {
		return fmt.Errorf("%w: frame %d is unreadable, frame %d is not", ErrDamaged, l.frames, later)
	}
	return nil
}

// shape is how the frames look.
var shape = framed.Frames{Head: frameHead, Shortest: shortest, Most: most, Number: numberIn}

func numberIn(head []byte) uint64 { return binary.LittleEndian.Uint64(head[8:]) }

// frameAt is what the frame of that place holds, at the beginning of raw; nil: there is none, or not all of it.
func (l *Log) frameAt(raw []byte, number uint64) []byte {
	length := shape.BodyLength(raw)
	if length == 0 || numberIn(raw) != number {
		return nil
	}
	end := frameHead + length
	if l.key.Checksum(raw[8:end]) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil
	}
	return raw[frameHead:end]
}

// Append keeps blobs, all or none of them, and gives the number of the first. They must not change afterwards. It must not
// be called after an error. Those who wait for more learn of it by Tell.
func (l *Log) Append(blobs [][]byte) (first uint64, err error) {
	chain := l.chain // it changes here alone
	buf := append(l.buf[:0], make([]byte, frameHead)...)
	places := make([]place, 0, len(blobs))
	for _, blob := range blobs {
		buf = binary.AppendUvarint(buf, uint64(len(blob)))
		chain = chain.After(blob)
		buf = append(buf, chain[:]...)
		places = append(places, place{l.end + int64(len(buf)), uint32(len(blob))})
		buf = append(buf, blob...)
	}
	l.buf = buf
	if len(buf)-frameHead > most {
		return 0, fmt.Errorf("%d bytes at once", len(buf))
	}
	binary.LittleEndian.PutUint32(buf, uint32(len(buf)-frameHead))
	binary.LittleEndian.PutUint64(buf[8:], l.frames)
	binary.LittleEndian.PutUint32(buf[4:], l.key.Checksum(buf[8:]))
	if err := l.write(buf); err != nil {
		return 0, err
	}
	l.end += int64(len(buf))
	l.frames++
	l.mu.Lock()
	defer l.mu.Unlock()
	first = uint64(len(l.places)) + 1
	l.places, l.newest, l.chain = append(l.places, places...), blobs, chain
	return first, nil
}

// Tell wakes those who wait for what was appended. It is apart from Append so that the answers, for which clients wait,
// are under way first.
func (l *Log) Tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
}

func (l *Log) write(buf []byte) error {
	l.ahead.reserve(l.end + int64(len(buf)))
	_, err := l.sink.WriteAt(buf, l.end)
	return err
}

// Last is the newest number, 0 where there is none, and the chain after it.
func (l *Log) Last() (uint64, Chain) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.places)), l.chain
}

// kept is at most how much of a frame blobs take.
func kept(blobs [][]byte) int {
	size := blobHead * len(blobs)
	for _, blob := range blobs {
		size += len(blob)
	}
	return size
}

// Get reads the blobs from a number on, up to most bytes of them as they are kept but at least one, and the chain after
// them. Where there is none yet, more closes when there is. What it gives must not be changed: others are given it too.
func (l *Log) Get(number uint64, most int) (blobs [][]byte, chain Chain, more <-chan struct{}, err error) {
	l.mu.Lock()
	if last := uint64(len(l.places)); number < 1 || number > last+1 {
		l.mu.Unlock()
		return nil, chain, nil, fmt.Errorf("%w: %d, where 1 to %d are accepted", ErrPast, number, last+1)
	}
	some, more, newest, last := l.places[number-1:], l.more, l.newest, l.chain
	l.mu.Unlock()
	size, n := 0, 0
	for n < len(some) && (n == 0 || size+int(some[n].bytes)+(n+1)*blobHead <= most) {
		size += int(some[n].bytes)
		n++
	}
	switch {
	case n == 0:
		return nil, chain, more, nil
	case n == len(some) && n == len(newest):
		return newest, last, more, nil
	}
	all := make([]byte, size)
	for _, p := range some[:n] {
		blob := all[:p.bytes:p.bytes]
		all = all[p.bytes:]
		if _, err := l.file.ReadAt(blob, p.at); err != nil {
			return nil, chain, nil, err
		}
		blobs = append(blobs, blob)
	}
	_, err = l.file.ReadAt(chain[:], some[n-1].at-sha256.Size)
	return blobs, chain, more, err
}

// Close releases the file.
func (l *Log) Close() error {
	l.ahead.wait()
	return errors.Join(l.sink.Close(), l.file.Close())
}
