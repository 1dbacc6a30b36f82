package configtool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// A configuration is proven where each since the channel's first block, which the network's folder has, is sealed by those
// who ordered under the one before. It says who orders, so that those who were removed for good need not answer. It does not
// say that it is the newest: for that the tool goes on to ask more of those who order than may lie.

// Configurations that one orderer is believed to have, and how large they may be together.
const (
	mostConfigs      = 256
	mostConfigsBytes = 64 << 20
)

// narrow has the client go on with those orderers alone that a proven configuration names, where enough of them have given
// that. It gives nil where there is none.
func (c *client) narrow(ctx context.Context, all []answered) *current {
	if c.genesis == nil {
		return nil
	}
	given := slices.DeleteFunc(slices.Clone(all), func(a answered) bool { return a.err != nil })
	slices.SortStableFunc(given, func(a, b answered) int { return cmp.Compare(b.now.config.Sequence, a.now.config.Sequence) })
	for _, a := range given {
		var bundle *channelconfig.Bundle
		err := c.one(ctx, c.addresses[a.index], func(ctx context.Context, orderer ordererpb.AtomicBroadcastClient) (err error) {
			bundle, err = c.prove(ctx, orderer, a.now)
			return err
		})
		if err != nil {
			continue
		}
		consents := func(address string) bool {
			return slices.ContainsFunc(bundle.Orderer.Consenters, func(one *etcdraftpb.Consenter) bool {
				return channelconfig.ConsenterAddress(one) == address
			})
		}
		same := 0
		for _, other := range given {
			if other.now.hash == a.now.hash && consents(c.addresses[other.index]) {
				same++
			}
		}
		if need := bundle.Orderer.Trust().Answers; same >= need {
			c.addresses = slices.DeleteFunc(slices.Clone(c.addresses), func(address string) bool { return !consents(address) })
			c.need = need
			return a.now
		}
	}
	return nil
}

// prove checks a configuration, and all that one orderer has before it.
func (c *client) prove(ctx context.Context, orderer ordererpb.AtomicBroadcastClient, now *current) (*channelconfig.Bundle, error) {
	configs, err := c.configs(ctx, orderer, now.block)
	if err != nil {
		return nil, err
	}
	bundle, hash := c.genesis, ""
	for _, config := range slices.Backward(configs) {
		next, err := channelconfig.FromBlock(config)
		if err != nil {
			return nil, err
		}
		if next.ChannelID != c.channel || next.Sequence <= bundle.Sequence {
			return nil, fmt.Errorf("block %d has configuration %d of channel %q", config.Header.Number, next.Sequence, next.ChannelID)
		}
		if err := bundle.VerifySeal(config.Header, config.Metadata); err != nil {
			return nil, err
		}
		bundle, hash = next, string(protoutil.BlockHeaderHash(config.Header))
	}
	if hash != now.hash {
		return nil, errors.New("it is not the configuration that was given before")
	}
	return bundle, nil
}

// configs are the blocks with configurations after the first block, the newest first.
func (c *client) configs(ctx context.Context, orderer ordererpb.AtomicBroadcastClient, number uint64) (configs []*commonpb.Block, err error) {
	for bytes := 0; number > 0; {
		block, err := c.numbered(ctx, orderer, number)
		if err != nil {
			return nil, err
		}
		if bytes += proto.Size(block); len(configs) == mostConfigs || bytes > mostConfigsBytes {
			return nil, fmt.Errorf("more than %d configurations, or %d bytes of them", mostConfigs, mostConfigsBytes)
		}
		configs = append(configs, block)
		if number == 1 {
			break // the one before is the first
		}
		before, err := c.numbered(ctx, orderer, number-1)
		if err != nil {
			return nil, err
		}
		last, _, err := protoutil.OrdererMetadata(before.Metadata)
		if err != nil {
			return nil, err
		}
		if last >= number {
			return nil, fmt.Errorf("block %d names a later configuration, block %d", number-1, last)
		}
		number = last
	}
	return configs, nil
}

// numbered asks for one block by its number. Who has signed it is not checked.
func (c *client) numbered(ctx context.Context, orderer ordererpb.AtomicBroadcastClient, number uint64) (*commonpb.Block, error) {
	at := &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: number}}}
	block, err := c.block(ctx, orderer, at)
	if err == nil {
		err = protoutil.CheckBlock(block)
	}
	if err == nil && block.Header.Number != number {
		err = fmt.Errorf("it sent block %d for block %d", block.Header.Number, number)
	}
	return block, err
}
