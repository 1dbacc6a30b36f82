package orderer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// A consenter that was away while the consenters changed may hear of no leader: it has been removed, so the others are
// silent, or its own configuration does not know the leader. As in Fabric, one that hears of no leader for long asks
// for the others' newest blocks.

const askTimeout = 5 * time.Second

// untilEvicted watches for being removed without having heard of it.
func (ch *channel) untilEvicted(ctx context.Context) bool {
	if ch.kind.Patience == nil {
		return false
	}
	patience := ch.kind.Patience(&ch.Bundle().Orderer)
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for alone := false; ; {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if ch.leader() != 0 {
			alone = false
			continue
		}
		if alone && ch.removedElsewhere(ctx) {
			return true
		}
		alone = true
	}
}

// removedElsewhere asks the others whether their newest block still names this orderer. Where it does, the other
// consenters that it names are introduced.
func (ch *channel) removedElsewhere(ctx context.Context) bool {
	id := ch.group.Load().id
	for _, address := range ch.sources() {
		newest, ids, err := ch.newest(ctx, address)
		if err == nil && len(ids) > 0 && !slices.Contains(ids, id) {
			return true
		}
		if err == nil && len(ids) > 0 {
			err = ch.meet(ctx, address, newest, ids)
		}
		if err != nil {
			log.Debugf("[channel: %s] newest block of %s: %s", ch.name, address, err)
		}
	}
	return false
}

// newest fetches an orderer's newest block and the consenters' ids that it names: none where it is older than ours, for
// it may be from before we were added.
func (ch *channel) newest(ctx context.Context, address string) (*commonpb.Block, []uint64, error) {
	block, err := ch.fetch(ctx, address, &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Newest{Newest: &ordererpb.SeekNewest{}}})
	if err != nil || block.Header.Number < ch.Height() {
		return nil, nil, err
	}
	_, raw, err := protoutil.OrdererMetadata(block.Metadata)
	if err != nil {
		return nil, nil, err
	}
	_, members, err := ch.kind.Log.Parse(raw, channelconfig.Membership{})
	return block, members.IDs, err
}

// meet introduces the consenters of the configuration that a block was ordered under.
func (ch *channel) meet(ctx context.Context, address string, block *commonpb.Block, ids []uint64) error {
	number, _, err := protoutil.OrdererMetadata(block.Metadata)
	if err != nil || number < ch.Height() { // we have that configuration
		return err
	}
	if number != block.Header.Number {
		if block, err = ch.fetch(ctx, address, seekNumber(number)); err != nil {
			return err
		}
	}
	bundle, err := channelconfig.FromBlock(block)
	if err != nil {
		return err
	}
	if bundle.ChannelID != ch.name || len(ids) != len(bundle.Orderer.Consenters) {
		return fmt.Errorf("block %d: %d ids of %d consenters of channel %q", number, len(ids), len(bundle.Orderer.Consenters), bundle.ChannelID)
	}
	ch.introduce(&ahead{bundle: bundle, ids: ids})
	return nil
}

// fetch asks an orderer for one block, and checks that orderers have signed it.
func (ch *channel) fetch(ctx context.Context, address string, at *ordererpb.SeekPosition) (block *commonpb.Block, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	seek := &ordererpb.SeekInfo{Start: at, Stop: at, Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY}
	err = ch.deliver(ctx, address, seek, func(stream ordererpb.AtomicBroadcast_DeliverClient) (err error) {
		block, err = receive(stream)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := protoutil.CheckBlock(block); err != nil {
		return nil, err
	}
	return block, ch.Bundle().VerifySeal(block.Header, block.Metadata)
}
