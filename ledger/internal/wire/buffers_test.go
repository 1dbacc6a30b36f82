package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/mem"
)

func TestABufferIsAtMostTwiceAsLargeAsItsContent(t *testing.T) {
	var b buffers
	for _, length := range []int{0, 1, 255, 256, 257, 33 << 10, 1 << 20, 1<<21 - 1, 1 << 21, 1<<21 + 1, 5 << 20} {
		for range 3 {
			got := b.Get(length)
			assert.Len(t, *got, length)
			assert.LessOrEqual(t, cap(*got), max(256, 2*length))
			b.Put(got)
		}
	}
}

func TestBuffersOfOthersAreNotKept(t *testing.T) {
	var b buffers
	for _, size := range []int{0, 100, 300, 5000, 3 << 20, 4 << 20} {
		odd := make([]byte, size)
		b.Put(&odd)
	}
	for _, length := range []int{1, 100, 257, 5000, 2 << 20} {
		got := b.Get(length)
		assert.Len(t, *got, length)
		assert.Zero(t, cap(*got)&(cap(*got)-1), "a power of two: %d", cap(*got))
	}
}

func TestABufferIsUsedAgain(t *testing.T) {
	var b buffers
	again := testing.AllocsPerRun(1000, func() { b.Put(b.Get(40_000)) })
	assert.Less(t, again, 1.0)
}

func TestAllConnectionsUseTheseBuffers(t *testing.T) {
	assert.IsType(t, &buffers{}, mem.DefaultBufferPool())
}
