package framed

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachFileHasAKeyOfItsOwn(t *testing.T) {
	head, key := Begin("some log")
	assert.Len(t, head, HeadBytes)
	read, err := Read(append(head, "frames"...), "some log")
	require.NoError(t, err)
	frame := []byte("frame")
	assert.Equal(t, key.Checksum(frame), read.Checksum(frame))
	assert.Equal(t, key.Checksum(frame), read.Checksum(frame[:2], frame[2:]))
	assert.NotEqual(t, key.Checksum(frame), key.Checksum(frame[:4]))

	_, other := Begin("some log")
	assert.NotEqual(t, key.Checksum(frame), other.Checksum(frame))
}

func TestAnotherFileIsRefused(t *testing.T) {
	head, _ := Begin("some log")
	files := map[string][]byte{"empty": nil, "short": head[:HeadBytes-1], "another": append([]byte("another "), head...)}
	for at := range head {
		files[fmt.Sprint("byte ", at)] = bytes.Clone(head)
		files[fmt.Sprint("byte ", at)][at] ^= 1
	}
	for name, raw := range files {
		_, err := Read(raw, "some log")
		require.ErrorIs(t, err, ErrNoHead, name)
		assert.ErrorContains(t, err, `it does not begin as "some log" does`)
	}
}
