// Package link is the connections between replicas and clients: frames over TCP or TLS, gathered into few writes, and
// where a run asks for it with a delay and a bandwidth.
package link

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/qioi/qioi/ledger/internal/process"
)

// The first byte of a frame.
const (
	Hello    = 1 // who has dialled
	Requests = 2 // clients' transactions
	Core     = 3 // a message of the protocol
	Reply    = 4 // what became of transactions
)

// largestFrame bounds what one peer makes another allocate.
const largestFrame = 64 << 20

const headerSize = 4

// ErrFrame is a frame that nobody has sent.
var ErrFrame = errors.New("a frame of an impossible size")

// Shape delays and throttles what one replica sends. All of its connections share one.
type Shape struct {
	Delay     time.Duration
	Bandwidth float64 // bytes per second; 0: unlimited

	mu   sync.Mutex
	free time.Time // when what was sent before has left
}

// due is when so many bytes arrive.
func (s *Shape) due(size int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.free.Before(now) {
		s.free = now
	}
	if s.Bandwidth > 0 {
		s.free = s.free.Add(time.Duration(float64(size) / s.Bandwidth * float64(time.Second)))
	}
	return s.free.Add(s.Delay)
}

// Conn is a connection that one goroutine writes to and another reads from.
type Conn struct {
	raw    net.Conn
	reader *bufio.Reader
	out    []byte
	shape  *Shape
	shaped chan parcel // nil: writes go out at once
	done   chan struct{}
	once   sync.Once
}

type parcel struct {
	due   time.Time
	bytes []byte
}

const (
	readAhead     = 64 << 10
	queuedParcels = 1 << 14
)

// New wraps a connection; shape may be nil.
func New(raw net.Conn, shape *Shape) *Conn {
	c := &Conn{raw: raw, reader: bufio.NewReaderSize(raw, readAhead), done: make(chan struct{})}
	if shape != nil && (shape.Delay > 0 || shape.Bandwidth > 0) {
		c.shape, c.shaped = shape, make(chan parcel, queuedParcels)
		go c.carry()
	}
	return c
}

// carry writes each parcel when it is due. By time.Sleep alone a link of 1 ms would be one of up to 2 ms.
func (c *Conn) carry() {
	alarm, err := process.NewAlarm()
	if err != nil {
		_ = c.raw.Close() // the reader learns of it
		return
	}
	defer func() { _ = alarm.Close() }()
	for {
		select {
		case p := <-c.shaped:
			if !c.await(alarm, p.due) {
				return
			}
			if _, err := c.raw.Write(p.bytes); err != nil {
				_ = c.raw.Close()
				return
			}
		case <-c.done:
			return
		}
	}
}

// await waits for a time; false: the connection was closed before.
func (c *Conn) await(alarm *process.Alarm, due time.Time) bool {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		alarm.Set(left)
		select {
		case <-alarm.C:
		case <-c.done:
			return false
		}
	}
	return true
}

// Dial connects to an address, over TLS where config is given.
func Dial(address string, config *tls.Config, shape *Shape) (*Conn, error) {
	raw, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if config != nil {
		secured := tls.Client(raw, config)
		if err := secured.Handshake(); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		raw = secured
	}
	return New(raw, shape), nil
}

// Append puts a frame behind those that wait to be written. Shaped frames are due on their own.
func (c *Conn) Append(frame []byte) {
	if c.shaped == nil {
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(frame)))
		c.out = append(c.out, frame...)
		return
	}
	whole := binary.BigEndian.AppendUint32(make([]byte, 0, headerSize+len(frame)), uint32(len(frame)))
	whole = append(whole, frame...)
	select {
	case c.shaped <- parcel{c.shape.due(len(whole)), whole}:
	case <-c.done:
	}
}

// Waiting is how many bytes wait to be written.
func (c *Conn) Waiting() int { return len(c.out) }

// Flush writes what waits.
func (c *Conn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.raw.Write(c.out)
	c.out = c.out[:0]
	return err
}

// Next reads a frame, which is the caller's.
func (c *Conn) Next() ([]byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(c.reader, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size == 0 || size > largestFrame {
		return nil, ErrFrame
	}
	frame := make([]byte, size)
	_, err := io.ReadFull(c.reader, frame)
	return frame, err
}

// Close ends both directions.
func (c *Conn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.raw.Close()
}
