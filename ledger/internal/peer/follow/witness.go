package follow

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// newest asks an orderer for the header of its newest block, as it has sealed it, and gives its number. Those who have sealed
// that one may be strangers here: a configuration that the peer lacks has named them. The orderer is asked then for the
// block that the peer waits for, which the configuration in force here verifies, and the number is that one.
func (f *Follower) newest(ctx context.Context, address string, waitsFor uint64) (uint64, error) {
	conn, err := f.dial(address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	newest := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Newest{Newest: &ordererpb.SeekNewest{}}}
	sealed, err := f.sealed(ctx, conn, newest)
	if err == nil || sealed < waitsFor {
		return sealed, err
	}
	next := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: waitsFor}}}
	switch sealed, err = f.sealed(ctx, conn, next); {
	case err != nil:
		return 0, fmt.Errorf("block [%d] does not verify either: %w", waitsFor, err)
	case sealed != waitsFor:
		return 0, fmt.Errorf("it gave block [%d] for block [%d]", sealed, waitsFor)
	}
	return waitsFor, nil
}

// sealed asks for the header of a block, and gives its number. It errs where the seal does not verify.
func (f *Follower) sealed(ctx context.Context, conn *grpc.ClientConn, at *ordererpb.SeekPosition) (uint64, error) {
	seek, err := proto.Marshal(&ordererpb.SeekInfo{
		Start: at, Stop: at, Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY, ContentType: ordererpb.SeekInfo_HEADER_WITH_SIG,
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
