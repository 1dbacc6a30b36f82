package blockfile

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestATornTransactionMayLookLikeFrames: a client chooses its bytes. Every fourth of these begins a frame of 4 MiB, as far
// as its header tells. To sum up each would be 13 TB, in which this test would not end, nor would a node's start.
func TestATornTransactionMayLookLikeFrames(t *testing.T) {
	const nonce, offset = 7, 4096
	torn := bytes.Repeat([]byte{0x01, 0x01, 0x40, 0x00}, 16<<20/4)
	assert.False(t, findFrame(torn, nonce, offset))
	// A frame in their midst is found nevertheless.
	whole, start := appendFrameHeader(bytes.Clone(torn[:1<<20]))
	whole = append(whole, "payload"...)
	finishFrame(whole, start, nonce, offset+int64(start), kindTx, 0)
	assert.True(t, findFrame(append(whole, torn[:5<<20]...), nonce, offset))
}

// TestSumsAreThoseOfAllBytes, for parts of every length and place.
func TestSumsAreThoseOfAllBytes(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 10_000)
	for i := range buf {
		buf[i] = byte(dice.Uint32())
	}
	s := newSums(buf)
	for range 5_000 {
		start := dice.IntN(len(buf) + 1)
		end, before := start+dice.IntN(len(buf)+1-start), buf[:dice.IntN(50)]
		want := crc32.Update(crc32.Checksum(before, castagnoli), castagnoli, buf[start:end])
		if got := s.follow(crc32.Checksum(before, castagnoli), start, end); got != want {
			t.Fatalf("%x, not %x, for [%d:%d] after %d bytes", got, want, start, end, len(before))
		}
	}
}

// TestSumsReachAFramesLargestPayload, which takes the last of the matrices.
func TestSumsReachAFramesLargestPayload(t *testing.T) {
	buf := make([]byte, maxFrame)
	want := crc32.Update(crc32.Checksum([]byte("head"), castagnoli), castagnoli, buf)
	assert.Equal(t, want, newSums(buf).follow(crc32.Checksum([]byte("head"), castagnoli), 0, maxFrame))
}
