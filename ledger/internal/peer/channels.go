package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/chain"
	"github.com/qioi/qioi/ledger/internal/peer/deliver"
	"github.com/qioi/qioi/ledger/internal/peer/endorser"
	"github.com/qioi/qioi/ledger/internal/peer/syscc"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// channels are the ones that the peer has joined, as its services look them up.
type channels map[string]*chain.Chain

// A nil *chain.Chain in an interface would not be nil, so these return nil themselves.

func (c channels) endorsing(id string) endorser.Channel {
	if ch := c[id]; ch != nil {
		return ch
	}
	return nil
}

func (c channels) delivering(id string) deliver.Chain {
	if ch := c[id]; ch != nil {
		return ch
	}
	return nil
}

// asked are the channels as system chaincodes see them.
func (c channels) asked() map[string]syscc.Channel {
	out := map[string]syscc.Channel{}
	for id, ch := range c {
		out[id] = ch
	}
	return out
}

func (c channels) joined(id string) (*chain.Chain, error) {
	if ch := c[id]; ch != nil {
		return ch, nil
	}
	return nil, fmt.Errorf("channel %q: the peer has not joined it", id)
}

// Bundle implements gateway.Channels.
func (c channels) Bundle(id string) *channelconfig.Bundle {
	if ch := c[id]; ch != nil {
		return ch.Bundle()
	}
	return nil
}

// Status implements gateway.Commits.
func (c channels) Status(ctx context.Context, channelID, txID string) (peerpb.TxValidationCode, uint64, error) {
	ch, err := c.joined(channelID)
	if err != nil {
		return 0, 0, err
	}
	s, err := ch.Status(ctx, txID)
	return s.Code, s.Position.Block, err
}

// Height implements gateway.Blocks.
func (c channels) Height(channelID string) (uint64, error) {
	ch, err := c.joined(channelID)
	if err != nil {
		return 0, err
	}
	return ch.Height(), nil
}

// Block implements gateway.Blocks.
func (c channels) Block(ctx context.Context, channelID string, number uint64) (*commonpb.Block, error) {
	ch, err := c.joined(channelID)
	if err != nil {
		return nil, err
	}
	for {
		changed := ch.UntilChanged()
		if number < ch.Height() {
			return ch.Block(number)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ch.Stopped():
			return nil, chain.ErrStopped
		}
	}
}

// BlockOf implements gateway.Blocks.
func (c channels) BlockOf(channelID, txID string) (number uint64, committed bool, err error) {
	ch, err := c.joined(channelID)
	if err != nil {
		return 0, false, err
	}
	s, err := ch.Find(txID)
	if errors.Is(err, chain.ErrNotFound) {
		return 0, false, nil
	}
	return s.Position.Block, err == nil, err
}
