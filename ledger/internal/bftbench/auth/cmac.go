package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// MACSize is the length of a CMAC in bytes.
const MACSize = aes.BlockSize

// CMAC is AES-CMAC (RFC 4493) under one key. It keeps no state between messages, so that goroutines may share it.
type CMAC struct {
	block cipher.Block
	whole [MACSize]byte // whole is the subkey for a last block that is complete, K1
	short [MACSize]byte // short is the subkey for one that is padded, K2
}

// NewCMAC takes a key of 16 bytes.
func NewCMAC(key []byte) (*CMAC, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	m := &CMAC{block: block}
	var zero [MACSize]byte
	block.Encrypt(m.whole[:], zero[:])
	double(&m.whole)
	m.short = m.whole
	double(&m.short)
	return m, nil
}

// double multiplies by x in the field of the standard.
func double(b *[MACSize]byte) {
	carry := b[0] >> 7
	for i := range MACSize - 1 {
		b[i] = b[i]<<1 | b[i+1]>>7
	}
	b[MACSize-1] = b[MACSize-1]<<1 ^ carry*0x87
}

// Append appends the code of the data.
func (m *CMAC) Append(to, data []byte) []byte {
	// The block that is encrypted lies at the end of what is returned: there is no other allocation.
	to = append(to, make([]byte, MACSize)...)
	state := to[len(to)-MACSize:]
	for len(data) > MACSize {
		subtle.XORBytes(state, state, data[:MACSize])
		m.block.Encrypt(state, state)
		data = data[MACSize:]
	}
	subtle.XORBytes(state, state, data)
	if len(data) == MACSize {
		subtle.XORBytes(state, state, m.whole[:])
	} else {
		state[len(data)] ^= 0x80
		subtle.XORBytes(state, state, m.short[:])
	}
	m.block.Encrypt(state, state)
	return to
}

// Verify reports whether the code is that of the data.
func (m *CMAC) Verify(data, code []byte) bool {
	var room [MACSize]byte
	return subtle.ConstantTimeCompare(m.Append(room[:0], data), code) == 1
}
