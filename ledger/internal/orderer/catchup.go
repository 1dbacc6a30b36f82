package orderer

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// fetchBlocks imports the blocks that we lack, up to height, from another orderer's Deliver.
func fetchBlocks(ctx context.Context, ch *channel, conn *grpc.ClientConn, height uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := ordererpb.NewAtomicBroadcastClient(conn).Deliver(ctx)
	if err != nil {
		return err
	}
	seek, err := proto.Marshal(&ordererpb.SeekInfo{
		Start: seekNumber(ch.Height()), Stop: seekNumber(height - 1), Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY,
	})
	if err != nil {
		return err
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_DELIVER_SEEK_INFO, ch.name, ch.signer, nil, seek)
	if err != nil {
		return err
	}
	if err := stream.Send(env); err != nil {
		return err
	}
	for ch.Height() < height {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		block := response.GetBlock()
		if block == nil {
			return fmt.Errorf("it answered %s after block %d", response.GetStatus(), ch.Height())
		}
		if err := ch.Import(block); err != nil {
			return err
		}
		ch.waiting.ordered(block.GetData().GetData()) // they come by no entry any more
	}
	return nil
}

func seekNumber(n uint64) *ordererpb.SeekPosition {
	return &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: n}}}
}
