package sequencer

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// fieldBlobs is the number of the blobs' field in a request.
const fieldBlobs protowire.Number = 2

// counted has a server refuse a request of more blobs before it reads them: an empty one is 2 bytes of a message, and takes
// 24 bytes of memory once it is read.
func counted(most int) grpc.ServerOption {
	return grpc.ForceServerCodecV2(counting{encoding.GetCodecV2(proto.Name), most})
}

type counting struct {
	encoding.CodecV2
	most int
}

// Unmarshal implements encoding.CodecV2.
func (c counting) Unmarshal(data mem.BufferSlice, into any) error {
	if _, is := into.(*sequencerpb.OrderRequest); !is {
		return c.CodecV2.Unmarshal(data, into)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if atLeast(c.most+1, whole.ReadOnlyData()) {
		return fmt.Errorf("more than %d blobs", c.most)
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, into)
}

// atLeast reports whether a request has so many blobs. What does not read as a request has those before that place.
func atLeast(blobs int, raw []byte) bool {
	for len(raw) > 0 {
		number, kind, length := protowire.ConsumeField(raw)
		if length < 0 {
			return false
		}
		if raw = raw[length:]; number == fieldBlobs && kind == protowire.BytesType {
			if blobs--; blobs == 0 {
				return true
			}
		}
	}
	return false
}
