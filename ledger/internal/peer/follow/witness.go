package follow

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// newest asks an orderer for the header of its newest block, as it has sealed it, and gives its number.
func (f *Follower) newest(ctx context.Context, address string) (uint64, error) {
	conn, err := f.dial(address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	newest := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Newest{Newest: &ordererpb.SeekNewest{}}}
	seek, err := proto.Marshal(&ordererpb.SeekInfo{
		Start: newest, Stop: newest, Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY, ContentType: ordererpb.SeekInfo_HEADER_WITH_SIG,
	})
	if err != nil {
		return 0, err
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, f.Chain.ID(), f.Signer, nil, seek)
	if err != nil {
		return 0, err
	}
	stream, err := ordererpb.NewAtomicBroadcastClient(conn).Deliver(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(env); err != nil {
		return 0, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	block := answer.GetBlock()
	if block == nil {
		return 0, fmt.Errorf("it answered %s", answer.GetStatus())
	}
	return block.GetHeader().GetNumber(), f.Chain.Bundle().VerifySeal(block.GetHeader(), block.GetMetadata())
}
