package sequencer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// TestARequestOfTooManyBlobsIsNotRead, wherever they are in it and however it ends: it would take far more memory than it has
// bytes.
func TestARequestOfTooManyBlobsIsNotRead(t *testing.T) {
	codec := counting{encoding.GetCodecV2(grpcproto.Name), 10}
	of := func(blobs int) []byte {
		raw, err := proto.Marshal(&sequencerpb.OrderRequest{Blobs: make([][]byte, blobs)})
		require.NoError(t, err)
		return raw
	}
	channel, err := proto.Marshal(&sequencerpb.OrderRequest{Channel: "ch"})
	require.NoError(t, err)
	unknown := []byte{0x1a, 2, 0x12, 0} // a field that has what a blob looks like
	read := func(parts ...[]byte) (*sequencerpb.OrderRequest, error) {
		var data mem.BufferSlice
		for _, part := range parts {
			data = append(data, mem.SliceBuffer(part))
		}
		var in sequencerpb.OrderRequest
		return &in, codec.Unmarshal(data, &in)
	}
	for name, parts := range map[string][][]byte{
		"at once": {of(11)}, "in parts": {of(5), channel, of(6)}, "and no more": {of(11), {0xff}}, "beside others": {unknown, of(11)},
	} {
		in, err := read(parts...)
		require.ErrorContains(t, err, "more than 10 blobs", name)
		assert.Empty(t, in.Blobs, name)
	}
	for name, parts := range map[string][][]byte{"at once": {of(10)}, "in parts": {of(4), channel, unknown, of(6)}} {
		in, err := read(parts...)
		require.NoError(t, err, name)
		assert.Len(t, in.Blobs, 10, name)
	}
	_, err = read([]byte{0xff})
	require.Error(t, err)
	var other sequencerpb.Blobs // what is no request is not counted
	require.NoError(t, codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(of(11))}, &other))
	assert.Len(t, other.Blobs, 11)
}

// TestAServerCountsBlobs: a request of too many is refused before it is read. Other requests are served.
func TestAServerCountsBlobs(t *testing.T) {
	_, address, _ := startWith(t, func(*Server) {}, counted(10))
	order, err := dial(t, address).Order(t.Context())
	require.NoError(t, err)
	require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: make([][]byte, 11)}))
	_, err = order.Recv()
	require.ErrorContains(t, err, "more than 10 blobs")
	serves(t, address)
}
