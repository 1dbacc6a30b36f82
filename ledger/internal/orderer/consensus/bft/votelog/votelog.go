// Package votelog keeps what a replica must not forget: a file of records, one write and one sync for as many as wait.
package votelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/framed"
)

const (
	name = "votes"
	kind = "qioivote"
	// frameHead is the length of what follows it, its checksum, and the number of the frame in its file.
	frameHead = 4 + 4 + 4
	// shortest is a frame of one empty record.
	shortest = frameHead + 1
	// goesOn, in a frame's number, says that its records count together with those of the next frame only.
	goesOn = 1 << 31
	// ahead is how much of the file is allocated at a time: a sync need not touch the file's own metadata then. No more goes
	// into a frame, but for a record that is larger.
	ahead = 16 << 20
	// most bounds a frame when it is read.
	most = 1 << 30
)

// ErrDamaged is told of a log whose end is not how a crash leaves it: votes may be missing.
var ErrDamaged = errors.New("damaged log of votes")

// File is what the log needs of the file that it writes.
type File interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	// Allocate reserves the file's first bytes.
	Allocate(size int64) error
	// Sync makes durable what was written.
	Sync() error
	Close() error
}

// Options change how a log is kept.
type Options struct {
	// Wrap replaces the file that is appended to, in tests of slow and failing disks.
	Wrap func(File) File
}

// Log is the file that is open. It is of one goroutine.
type Log struct {
	dir       string
	opts      Options
	file      File
	key       framed.Key
	end       int64 // of the frames
	allocated int64
	frames    uint32
	buf       []byte
	volatile  bool
}

// Forget has Append return before records are durable: a power cut loses votes that others have counted, and a replica that
// votes again makes liars of those that were honest. It is for measurements.
func (l *Log) Forget() { l.volatile = true }

// Exists reports whether a log was begun in dir.
func Exists(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Open reads the log in dir, or begins one. What a crash has left half written was never reported as durable, and is
// cut off.
func Open(dir string, opts Options) (*Log, [][]byte, error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, name)
	if there, err := Exists(dir); err != nil {
		return nil, nil, err
	} else if !there {
		if err := (&Log{dir: dir}).begin(nil); err != nil {
			return nil, nil, err
		}
	}
	if err := durable.FromDisk(path); err != nil {
		return nil, nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	l := &Log{dir: dir, opts: opts}
	records, err := l.read(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := l.reopen(); err != nil {
		return nil, nil, err
	}
	// A process that was killed may have written without a sync what this one is going to repeat to others.
	if err := l.file.Sync(); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, records, nil
}

// reopen writes on where the frames end.
func (l *Log) reopen() error {
	file, err := os.OpenFile(filepath.Join(l.dir, name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	l.file, l.allocated = osFile{file}, l.end
	if l.opts.Wrap != nil {
		l.file = l.opts.Wrap(l.file)
	}
	if err := l.file.Truncate(l.end); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// osFile syncs with fdatasync, which leaves out the file's times.
type osFile struct{ *os.File }

func (f osFile) Allocate(size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }

func (f osFile) Sync() error {
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

func (l *Log) read(raw []byte) (records [][]byte, err error) {
	if l.key, err = framed.Read(raw, kind); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	l.end = framed.HeadBytes
	end, frames, count := l.end, l.frames, 0 // count: of the records up to the last frame that does not go on
	for {
		body, size, last := l.frameAt(raw[end:], frames)
		if body == nil {
			break
		}
		for len(body) > 0 {
			n, used := binary.Uvarint(body)
			if used <= 0 || n > uint64(len(body)-used) {
				return nil, ErrDamaged
			}
			records = append(records, body[used:used+int(n):used+int(n)])
			body = body[used+int(n):]
		}
		end += size
		frames++
		if last {
			l.end, l.frames, count = end, frames, len(records)
		}
	}
	// The frame that a crash cut short is the last: a later one would have been written after it was durable.
	if later, found := shape.Behind(raw[end:], l.key, uint64(frames)); found {
		return nil, fmt.Errorf("%w: frame %d is unreadable, frame %d is not", ErrDamaged, frames, later)
	}
	return records[:count:count], nil
}

// shape is how the frames look.
var shape = framed.Frames{
	Head: frameHead, Shortest: shortest, Most: most,
	Number: func(head []byte) uint64 { return uint64(numberIn(head)) },
}

func numberIn(head []byte) uint32 { return binary.LittleEndian.Uint32(head[8:]) &^ goesOn }

// frameAt is the frame of that number at the beginning of raw, its size, and whether its records need no other frame's; nil:
// there is none, or not all of it.
func (l *Log) frameAt(raw []byte, number uint32) (body []byte, size int64, last bool) {
	length := shape.BodyLength(raw)
	if length == 0 || numberIn(raw) != number {
		return nil, 0, false
	}
	body = raw[frameHead : frameHead+length]
	if l.key.Checksum(raw[8:frameHead], body) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil, 0, false
	}
	return body, frameHead + int64(length), binary.LittleEndian.Uint32(raw[8:])&goesOn == 0
}

// inFrame is how many of the records go into one frame.
func inFrame(records [][]byte) int {
	n, size := 0, 0
	for n < len(records) && (n == 0 || size+len(records[n]) <= ahead) {
		size += len(records[n])
		n++
	}
	return n
}

func appendFrame(buf []byte, key framed.Key, number uint32, records [][]byte) []byte {
	head := len(buf)
	buf = append(buf, make([]byte, frameHead)...)
	for _, r := range records {
		buf = binary.AppendUvarint(buf, uint64(len(r)))
		buf = append(buf, r...)
	}
	frame := buf[head:]
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.LittleEndian.PutUint32(frame[8:], number)
	binary.LittleEndian.PutUint32(frame[4:], key.Checksum(frame[8:]))
	return buf
}

// Append makes records durable, all of them or none.
func (l *Log) Append(records [][]byte) error {
	for len(records) > 0 {
		n, number := inFrame(records), l.frames
		if n < len(records) {
			number |= goesOn
		}
		if err := l.append(number, records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// append writes a frame, which is durable before the next is begun: none is ever there without the one before it.
func (l *Log) append(number uint32, records [][]byte) error {
	l.buf = appendFrame(l.buf[:0], l.key, number, records)
	if need := l.end + int64(len(l.buf)); need > l.allocated {
		l.allocated = need + ahead
		// Where the file system cannot, the file grows with each write.
		_ = l.file.Allocate(l.allocated)
	}
	if _, err := l.file.WriteAt(l.buf, l.end); err != nil {
		return err
	}
	if !l.volatile {
		if err := l.file.Sync(); err != nil {
			return err
		}
	}
	l.end += int64(len(l.buf))
	l.frames++
	return nil
}

// Replace begins the log anew with these records in place of all before. Where it fails, all before stay.
func (l *Log) Replace(records [][]byte) error {
	if err := l.begin(records); err != nil {
		return err
	}
	return errors.Join(l.Close(), l.reopen())
}

// begin makes a file with these records, which takes the place of any before.
func (l *Log) begin(records [][]byte) error {
	head, key := framed.Begin(kind)
	end, frames := int64(len(head)), uint32(0)
	err := durable.Replace(l.dir, name, nil, func(w *durable.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for len(records) > 0 {
			n := inFrame(records)
			frame := appendFrame(nil, key, frames, records[:n])
			records = records[n:]
			frames++
			end += int64(len(frame))
			if _, err := w.Write(frame); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		l.key, l.end, l.frames = key, end, frames
	}
	return err
}

// Size is how many bytes a restart would read.
func (l *Log) Size() int64 { return l.end }

// Close releases the file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

var _ io.Closer = (*Log)(nil)
