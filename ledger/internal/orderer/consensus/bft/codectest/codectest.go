// Package codectest shows that a protocol's messages and records are read as they were written, and that to read what a
// liar has sent takes little memory.
package codectest

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
)

const (
	// times is how much more memory than bytes anything may take that can be read: a transaction of one byte takes two bytes
	// and has a slice of 24, a signature without bytes takes two and has 32, both rounded up to what the allocator has.
	times = 16
	// invented is how much more a count may have made room for that is wrong.
	invented = 8
	// slack is what an error takes, and all that does not grow with the bytes.
	slack = 64 << 10
	// follows is how many bytes follow a count that is wrong: enough for a decoder that believes it to take more than slack.
	follows = 64 << 10
	// tries is how often what is too much is measured anew: what runs beside the test allocates, too.
	tries = 5
)

// Cheap fails where read takes too much memory for any bytes at all.
func Cheap(t testing.TB, raw []byte, read func([]byte)) {
	t.Helper()
	within(t, raw, times, read)
}

// Hostile replaces each byte of the sample in turn, and all that follows it, by a count and bytes that are no list of so
// many items, and gives read the result. So each count that the sample has is wrong once, wherever it stands.
func Hostile(t testing.TB, sample []byte, read func([]byte)) {
	t.Helper()
	for _, pattern := range [][]byte{
		{0x80, 0}, // no number: the first item cannot be read
		{0},       // nothing at all, again and again
		{1},       // items with as little in them as there may be
	} {
		rest := bytes.Repeat(pattern, follows/len(pattern))
		for at := range sample {
			count := func(n uint64) []byte { return append(binary.AppendUvarint(slices.Clip(sample[:at]), n), rest...) }
			within(t, count(follows), invented, read)
			within(t, count(follows/2), times, read)
			within(t, count(follows/128), times, read)
			within(t, count(1<<63), invented, read)
		}
	}
}

func within(t testing.TB, raw []byte, factor int, read func([]byte)) {
	t.Helper()
	most, took := uint64(factor*len(raw)+slack), uint64(0)
	for range tries {
		if took = allocated(func() { read(raw) }); took <= most {
			return
		}
	}
	t.Fatalf("%d bytes take %d, more than %d: %x...", len(raw), took, most, raw[:min(len(raw), 512)])
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
