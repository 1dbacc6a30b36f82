// Package checksums tells the checksums (CRC-32C) of many parts of one buffer. A log that looks for a frame at every place of
// what it cannot read would else sum up most of it at each: a client may have made its transaction look like the begin of
// a large frame everywhere.
package checksums

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stride is how many bytes lie between two checksums that Sums keeps: it takes a sixteenth of the buffer's size.
const stride = 64

// Sums gives the checksum of any part of a buffer without reading all of it again. Checksums are linear: that of a part
// follows from those of all before its begin and of all before its end.
type Sums struct {
	buf   []byte
	every []uint32 // of the first i*stride bytes
}

// Of reads all of a buffer, once. Its parts have less than 2 GiB.
func Of(buf []byte) *Sums {
	s := &Sums{buf: buf, every: make([]uint32, 1, 1+len(buf)/stride)}
	for end := stride; end <= len(buf); end += stride {
		s.every = append(s.every, crc32.Update(s.every[len(s.every)-1], castagnoli, buf[end-stride:end]))
	}
	return s
}

func (s *Sums) to(end int) uint32 {
	i := end / stride
	return crc32.Update(s.every[i], castagnoli, s.buf[i*stride:end])
}

// Follow is the checksum of what has the checksum crc, followed by buf[start:end].
func (s *Sums) Follow(crc uint32, start, end int) uint32 {
	return pushed(crc^s.to(start), end-start) ^ s.to(end)
}

// matrix is what a number of zero bytes makes of each bit of a checksum's register.
type matrix [32]uint32

func (m *matrix) times(register uint32) (out uint32) {
	for bit := 0; register != 0; bit, register = bit+1, register>>1 {
		if register&1 != 0 {
			out ^= m[bit]
		}
	}
	return out
}

// zeroes has the matrix of 2^i zero bytes at i.
var zeroes = func() (out [31]matrix) {
	for bit := range out[0] {
		register := uint32(1) << bit
		for range 8 {
			odd := register & 1
			if register >>= 1; odd != 0 {
				register ^= crc32.Castagnoli
			}
		}
		out[0][bit] = register
	}
	for i := 1; i < len(out); i++ {
		for bit, half := range out[i-1] {
			out[i][bit] = out[i-1].times(half)
		}
	}
	return out
}()

// pushed is what so many bytes behind it leave of a register.
func pushed(register uint32, bytes int) uint32 {
	for i := 0; bytes > 0; i, bytes = i+1, bytes>>1 {
		if bytes&1 != 0 {
			register = zeroes[i].times(register)
		}
	}
	return register
}
