package orderer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// A consenter that was away while the consenters changed may hear of no leader: it has been removed, so the others are
// silent, or its own configuration does not know the leader. As in Fabric, one that hears of no leader for long asks
// for the others' newest blocks.

const (
	// proofTimeout bounds how long one source may take for all configurations up to its newest block, beside a turn, within
	// which each block comes; proofBlocks how many there may be, and proofBytes how large they may be together.
	proofTimeout = 25 * time.Second
	proofBlocks  = 256
	proofBytes   = 64 << 20
	// sayAgain is between two warnings of an orderer that stays alone.
	sayAgain = 30 * time.Second
)

// untilEvicted watches for being removed without having heard of it.
func (ch *channel) untilEvicted(ctx context.Context) bool {
	if ch.kind.Patience == nil {
		return false
	}
	patience := ch.kind.Patience(&ch.Bundle().Orderer)
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	var said time.Time
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
		if alone {
			removed, answers := ch.removedElsewhere(ctx)
			if removed {
				return true
			}
			if time.Since(said) >= sayAgain && ctx.Err() == nil {
				said = time.Now()
				log.Warnf("[channel: %s] no leader is heard for more than %s. The others' newest blocks: %s",
					ch.name, patience, strings.Join(answers, "; "))
			}
		}
		alone = true
	}
}

// removedElsewhere asks the others whether their newest block still names this orderer. Where it does, the other
// consenters that it names are introduced. It says what each has answered.
func (ch *channel) removedElsewhere(ctx context.Context) (removed bool, answers []string) {
	id := ch.group.Load().id
	for _, address := range ch.asked.sort(ch.sources()) {
		newest, err := ch.newest(ctx, address)
		switch {
		case err != nil:
			answers = append(answers, fmt.Sprintf("%s: %s", address, err))
		case newest == nil || len(newest.ids) == 0:
			answers = append(answers, address+" has none that is newer than ours")
		case !slices.Contains(newest.ids, id):
			return true, nil
		default:
			answers = append(answers, fmt.Sprintf("%s names this orderer, in configuration %d", address, newest.bundle.Sequence))
			ch.introduce(newest)
		}
	}
	return false, answers
}

// newest is the configuration that an orderer's newest block was ordered under, or is, and the consenters' ids that the
// block names; nil where it is older than ours, for it may be from before we were added.
func (ch *channel) newest(ctx context.Context, address string) (*ahead, error) {
	most := proofTimeout + ch.asked.of(address, ch.Height())
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%w %s", errLong, most))
	defer cancel()
	from := source{address, &ch.asked}
	block, err := ch.fetch(ctx, from, seekNewest())
	if err != nil || block.Header.Number < ch.Height() {
		return nil, err
	}
	bundle, err := ch.prove(ctx, from, block)
	if err != nil {
		return nil, err
	}
	_, raw, err := protoutil.OrdererMetadata(block.Metadata)
	if err != nil {
		return nil, err
	}
	_, members, err := ch.kind.Log.Parse(raw, channelconfig.Membership{})
	if err == nil && len(members.IDs) > 0 && len(members.IDs) != len(bundle.Orderer.Consenters) {
		consenters := len(bundle.Orderer.Consenters)
		err = fmt.Errorf("block %d: %d ids of %d consenters", block.Header.Number, len(members.IDs), consenters)
	}
	return &ahead{bundle: bundle, ids: members.IDs}, err
}

// prove checks that those have signed a block who may, and returns its configuration. Each configuration since ours is
// signed by the consenters of the one before: where orderers may lie, few of ours may be left to sign the newest block.
func (ch *channel) prove(ctx context.Context, from source, block *commonpb.Block) (*channelconfig.Bundle, error) {
	bundle := ch.Bundle()
	configs, err := ch.configsSince(ctx, from, block)
	if err != nil {
		return nil, err
	}
	proven := false
	for _, config := range slices.Backward(configs) {
		next, err := channelconfig.FromBlock(config)
		if err != nil {
			return nil, err
		}
		if next.ChannelID != ch.name {
			return nil, fmt.Errorf("block %d is of channel %q", config.Header.Number, next.ChannelID)
		}
		if next.Sequence <= bundle.Sequence {
			continue // it is in force here, and its block is being sealed
		}
		if err := bundle.VerifySeal(config.Header, config.Metadata); err != nil {
			return nil, err
		}
		bundle, proven = next, config == block
	}
	if proven {
		return bundle, nil
	}
	return bundle, bundle.VerifySeal(block.Header, block.Metadata)
}

// configsSince fetches the blocks of the configurations that this orderer lacks, the newest first. They are not proven.
func (ch *channel) configsSince(ctx context.Context, from source, block *commonpb.Block) ([]*commonpb.Block, error) {
	var configs []*commonpb.Block
	bytes := 0
	for have := ch.Height(); len(configs) < proofBlocks; {
		number, _, err := protoutil.OrdererMetadata(block.Metadata)
		if err != nil || number < have {
			return configs, err
		}
		if number > block.Header.Number {
			return nil, fmt.Errorf("block %d names a later configuration, block %d", block.Header.Number, number)
		}
		if number < block.Header.Number {
			if block, err = ch.fetch(ctx, from, seekNumber(number)); err != nil {
				return nil, err
			}
		}
		configs = append(configs, block)
		if bytes += proto.Size(block); bytes > proofBytes {
			return nil, fmt.Errorf("the configurations that were missed have more than %d bytes", proofBytes)
		}
		if number == have {
			return configs, nil
		}
		if block, err = ch.fetch(ctx, from, seekNumber(number-1)); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("more than %d configurations were missed", proofBlocks)
}

// source is an orderer that is asked for blocks.
type source struct {
	address string
	turns   *turns // within one of which a block comes
}

// fetch asks an orderer for one block. Who has signed it is not checked.
func (ch *channel) fetch(ctx context.Context, from source, at *ordererpb.SeekPosition) (block *commonpb.Block, err error) {
	ctx, turn := from.turns.begin(ctx, from.address, ch.Height(), ch.largest())
	defer turn.end()
	seek := &ordererpb.SeekInfo{Start: at, Stop: at, Behavior: ordererpb.SeekInfo_FAIL_IF_NOT_READY}
	err = ch.deliver(ctx, from.address, seek, turn.heard, func(stream ordererpb.AtomicBroadcast_DeliverClient) (err error) {
		block, err = receive(stream)
		return err
	})
	if err != nil {
		cause := context.Cause(ctx)
		from.turns.judge(from.address, cause, ch.largest())
		return nil, cmp.Or(cause, err)
	}
	if err := protoutil.CheckBlock(block); err != nil {
		return nil, err
	}
	if wanted := at.GetSpecified(); wanted != nil && block.Header.Number != wanted.Number {
		return nil, fmt.Errorf("it sent block %d for block %d", block.Header.Number, wanted.Number)
	}
	return block, nil
}
