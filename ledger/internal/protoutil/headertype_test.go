package protoutil

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

func TestHeaderType(t *testing.T) {
	_, signers := fixture(t, "client")
	for _, kind := range []commonpb.HeaderType{commonpb.HeaderType_MESSAGE, commonpb.HeaderType_CONFIG, commonpb.HeaderType_ENDORSER_TRANSACTION} {
		env, _, err := NewEnvelope(kind, "ch", signers[0], nil, []byte("x"))
		require.NoError(t, err)
		raw, err := proto.Marshal(env)
		require.NoError(t, err)
		assert.Equal(t, int32(kind), HeaderType(raw))
		// The same fields again: protobuf would merge or take the last.
		assert.Equal(t, int32(-1), HeaderType(slices.Concat(raw, raw)))
		assert.Equal(t, int32(-1), HeaderType(raw[:len(raw)/2]))
		env.Payload = slices.Concat(env.Payload, env.Payload)
		raw, err = proto.Marshal(env)
		require.NoError(t, err)
		assert.Equal(t, int32(-1), HeaderType(raw), "the payload says its header again")
		env.Signature = nil
		raw, err = proto.Marshal(env)
		require.NoError(t, err)
		assert.Equal(t, int32(-1), HeaderType(raw), "nobody has signed it")
	}
	assert.Equal(t, int32(-1), HeaderType(nil))
}

func FuzzHeaderType(f *testing.F) {
	f.Add([]byte{0x0a, 0x06, 0x0a, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x12, 0x01, 0x00})
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind := HeaderType(raw)
		if msg, err := ParseEnvelope(raw); err == nil && kind >= 0 && kind != msg.Channel.Type {
			t.Fatalf("reads %d, a full parse reads %d", kind, msg.Channel.Type)
		}
	})
}
