package wire

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// The buffers that are kept for use again have powers of two for sizes, from leastBuffer to mostBuffer.
const (
	leastBuffer = 11 // 2 KiB: gRPC never gives back what has room for 1,024 bytes or less
	mostBuffer  = 22 // 4 MiB: a block of the preferred size, which is 2 MiB, and what surrounds it
)

// gRPC's own pool has few sizes, so that a message of 33 KB takes a buffer of 1 MiB, and it clears the whole of a
// buffer before each use: at each end of each connection, for each message. gRPC fills every buffer before it reads
// from it, with this pool as with its own.
//
// The codec, which also puts the frames of a message together, and clients take this pool because it is the default.
// Package grpc has noted a default for servers before this package begins: each is told of the pool, by serving.Server.
func init() { experimental.SetDefaultBufferPool(Buffers) }

// Buffers are those of all connections of this process.
var Buffers mem.BufferPool = &buffers{}

// buffers is a mem.BufferPool.
type buffers struct {
	pools [mostBuffer + 1]sync.Pool
}

var _ mem.BufferPool = (*buffers)(nil)

// Get gives a buffer of that length, with any content.
func (b *buffers) Get(length int) *[]byte {
	class := max(leastBuffer, bits.Len(uint(max(length, 1)-1)))
	if class > mostBuffer {
		fresh := make([]byte, length)
		return &fresh
	}
	if kept, ok := b.pools[class].Get().(*[]byte); ok {
		*kept = (*kept)[:length]
		return kept
	}
	fresh := make([]byte, length, 1<<class)
	return &fresh
}

// Put takes a buffer back; those of other sizes are left to the garbage collector.
func (b *buffers) Put(buf *[]byte) {
	size := cap(*buf)
	class := bits.Len(uint(size)) - 1
	if size > 0 && size == 1<<class && class >= leastBuffer && class <= mostBuffer {
		b.pools[class].Put(buf)
	}
}
