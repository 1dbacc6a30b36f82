package codectest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Codec is how a protocol spells its messages and records.
type Codec struct {
	Encode       func(bft.Message) []byte
	Decode       func([]byte) (bft.Message, error)
	EncodeRecord func(bft.Record) []byte
	DecodeRecord func([]byte) (bft.Record, error)
}

// Messages checks that messages are read as they were written, and neither cut off nor with anything after them.
func (c Codec) Messages(t *testing.T, samples []bft.Message) {
	for _, m := range samples {
		raw := c.Encode(m)
		read, err := c.Decode(raw)
		require.NoError(t, err, m.Kind())
		require.Equal(t, m, read, m.Kind())
		for n := range raw {
			_, err := c.Decode(raw[:n])
			require.Error(t, err, "%s cut off after %d of %d bytes", m.Kind(), n, len(raw))
		}
		_, err = c.Decode(append(raw, 0))
		require.ErrorIs(t, err, bft.ErrEncoding, m.Kind())
	}
}

// Records checks that records are read as they were written.
func (c Codec) Records(t *testing.T, samples []bft.Record) {
	for _, r := range samples {
		read, err := c.DecodeRecord(c.EncodeRecord(r))
		require.NoError(t, err, r.Kind())
		require.Equal(t, r, read, r.Kind())
	}
}

// Short checks that messages with the shortest items in their lists are read: none is shorter than what a count is compared
// with.
func (c Codec) Short(t *testing.T, samples ...bft.Message) {
	for _, m := range samples {
		raw := c.Encode(m)
		read, err := c.Decode(raw)
		require.NoError(t, err, m.Kind())
		require.Equal(t, raw, c.Encode(read), m.Kind())
	}
}

// WrongCounts checks that wrong counts in messages and records cost little.
func (c Codec) WrongCounts(t *testing.T, messages []bft.Message, records []bft.Record) {
	for _, m := range messages {
		Hostile(t, c.Encode(m), c.decode)
	}
	for _, r := range records {
		Hostile(t, c.EncodeRecord(r), func(raw []byte) { _, _ = c.DecodeRecord(raw) })
	}
}

// Fuzz checks that whatever is read is spelled the same way, so that two spellings never pass for one message, and that
// nothing takes much more memory than it is long.
func (c Codec) Fuzz(f *testing.F, samples []bft.Message) {
	for _, m := range samples {
		f.Add(c.Encode(m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		Cheap(t, raw, c.decode)
		m, err := c.Decode(raw)
		if err == nil {
			require.Equal(t, raw, c.Encode(m))
		}
	})
}

func (c Codec) decode(raw []byte) { _, _ = c.Decode(raw) }
