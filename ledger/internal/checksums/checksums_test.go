package checksums

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSumsAreThoseOfAllBytes, for parts of every length and place.
func TestSumsAreThoseOfAllBytes(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 10_000)
	for i := range buf {
		buf[i] = byte(dice.Uint32())
	}
	s := Of(buf)
	for range 5_000 {
		start := dice.IntN(len(buf) + 1)
		end, before := start+dice.IntN(len(buf)+1-start), buf[:dice.IntN(50)]
		want := crc32.Update(crc32.Checksum(before, castagnoli), castagnoli, buf[start:end])
		if got := s.Follow(crc32.Checksum(before, castagnoli), start, end); got != want {
			t.Fatalf("%x, not %x, for [%d:%d] after %d bytes", got, want, start, end, len(before))
		}
	}
}

// TestSumsReachPartsOfAGigabyte, which take the last of the matrices.
func TestSumsReachPartsOfAGigabyte(t *testing.T) {
	buf := make([]byte, 1<<30)
	want := crc32.Update(crc32.Checksum([]byte("head"), castagnoli), castagnoli, buf)
	assert.Equal(t, want, Of(buf).Follow(crc32.Checksum([]byte("head"), castagnoli), 0, len(buf)))
}
