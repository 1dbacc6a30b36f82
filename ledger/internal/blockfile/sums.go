package blockfile

import "hash/crc32"

// stride is how many bytes lie between two checksums that sums keeps: it takes a sixteenth of the buffer's size.
const stride = 64

// sums gives the checksum of any part of a buffer without reading all of it again. Checksums are linear: that of a part
// follows from those of all before its begin and of all before its end.
type sums struct {
	buf   []byte
	every []uint32 // of the first i*stride bytes
}

func newSums(buf []byte) *sums {
	s := &sums{buf: buf, every: make([]uint32, 1, 1+len(buf)/stride)}
	for end := stride; end <= len(buf); end += stride {
		s.every = append(s.every, crc32.Update(s.every[len(s.every)-1], castagnoli, buf[end-stride:end]))
	}
	return s
}

func (s *sums) to(end int) uint32 {
	i := end / stride
	return crc32.Update(s.every[i], castagnoli, s.buf[i*stride:end])
}

// follow is the checksum of what has the checksum crc, followed by buf[start:end].
func (s *sums) follow(crc uint32, start, end int) uint32 {
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

// zeroes has the matrix of 2^i zero bytes at i, up to a frame's largest payload.
var zeroes = func() (out [29]matrix) {
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
