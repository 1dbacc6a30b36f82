package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/mem"
)

func TestABufferIsAtMostTwiceAsLargeAsItsContent(t *testing.T) {
	var b buffers
	for _, length := range []int{0, 1, 2047, 2048, 2049, 33 << 10, 1 << 20, 1<<22 - 1, 1 << 22, 1<<22 + 1, 9 << 20} {
		for range 3 {
			got := b.Get(length)
			assert.Len(t, *got, length)
			assert.LessOrEqual(t, cap(*got), max(2048, 2*length))
			b.Put(got)
		}
	}
}

func TestBuffersOfOthersAreNotKept(t *testing.T) {
	var b buffers
	for _, size := range []int{0, 100, 1024, 5000, 3 << 20, 8 << 20} {
		odd := make([]byte, size)
		b.Put(&odd)
	}
	for _, length := range []int{1, 100, 1024, 2049, 5000, 4 << 20} {
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

func TestClientsAndCodecUseTheseBuffers(t *testing.T) {
	assert.Same(t, Buffers, mem.DefaultBufferPool())
}

// TestTheLeastBufferIsGivenBack: what gRPC keeps to itself would be new each time.
func TestTheLeastBufferIsGivenBack(t *testing.T) {
	assert.False(t, mem.IsBelowBufferPoolingThreshold(cap(*(&buffers{}).Get(1))))
}
