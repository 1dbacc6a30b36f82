package rwset

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestNamespacesAreToldApartInTime: anybody who may send transactions can send one whose 10 MiB are namespaces without
// content, and every peer decodes it before it looks at an endorsement. To compare each with all before it would be
// 8 x 10^11 comparisons, in which this test would not end.
func TestNamespacesAreToldApartInTime(t *testing.T) {
	const count = 10 << 20 / 8
	raw := make([]byte, 0, 8*count)
	for i := range uint32(count) {
		raw = protowire.AppendTag(raw, 2, protowire.BytesType)
		raw = append(raw, 6, 1<<3|2, 4)                     // field 1 of a NsReadWriteSet
		raw = binary.BigEndian.AppendUint32(raw, spread(i)) // as text
	}
	set, err := Decode(raw)
	require.NoError(t, err)
	assert.Len(t, set.Namespaces, count)
	_, err = Decode(append(raw, raw[:8]...))
	assert.ErrorContains(t, err, "given twice")
}

// spread puts 7 bits into each byte, so that they are text.
func spread(n uint32) uint32 { return n&0x7f | n&0x3f80<<1 | n&0x1fc000<<2 | n&0xfe00000<<3 }
