package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// batchBytes bounds a batch to followers: large enough to be cheap, small enough
// for any receiver's limit together with one transaction more.
const batchBytes = 1 << 20

// Read waits for what follows at, and returns it with the position after it.
func (c *Chain) Read(ctx context.Context, at Position) (*streampb.Batch, Position, error) {
	for {
		batch, next, more, err := c.hub.read(at, batchBytes)
		switch {
		case errors.Is(err, errEvicted):
			items, next, err := c.readBlock(at)
			return &streampb.Batch{Items: items}, next, err
		case err != nil || len(batch.Items) > 0:
			return batch, next, err
		}
		select {
		case <-ctx.Done():
			return nil, at, ctx.Err()
		case <-more:
		}
	}
}

// Word waits until there is more than at, and returns the newest running hash with its position. A word stands for all
// before it, so those in between are left out.
func (c *Chain) Word(ctx context.Context, at Position) (*streampb.Batch, Position, error) {
	for {
		word, more := c.hub.newest(at)
		if word != nil {
			return &streampb.Batch{Word: word}, Position{word.Block, word.Tx}, nil
		}
		select {
		case <-ctx.Done():
			return nil, at, ctx.Err()
		case <-more:
		}
	}
}

func (c *Chain) readBlock(at Position) ([]*streampb.Item, Position, error) {
	block, err := c.Block(at.Block)
	if err != nil {
		return nil, at, err
	}
	txs := block.Data.GetData()
	if at.Tx > uint64(len(txs)) {
		return nil, at, fmt.Errorf("%w: block %d has %d transactions, asked for number %d", ErrPosition, at.Block, len(txs), at.Tx)
	}
	var items []*streampb.Item
	for bytes := 0; at.Tx < uint64(len(txs)) && bytes < batchBytes; at.Tx++ {
		tx := txs[at.Tx]
		items = append(items, &streampb.Item{Kind: &streampb.Item_Tx{Tx: tx}})
		bytes += len(tx)
	}
	if at.Tx < uint64(len(txs)) {
		return items, at, nil
	}
	seal := &streampb.Seal{Header: block.Header, Metadata: block.Metadata}
	return append(items, &streampb.Item{Kind: &streampb.Item_Seal{Seal: seal}}), Position{Block: at.Block + 1}, nil
}

// ErrOwn is what an error of Import wraps when no other source can mend it: this orderer's files fail, or hold another chain.
var ErrOwn = errors.New("this orderer's own ledger is at fault")

// Import appends the next block as another orderer has sealed it, for a node that
// was away for so long that the log no longer reaches back. It checks hashes and
// signature. Transactions of that block that we had already must be the same. An error that wraps ErrOwn is none of the
// source's.
func (c *Chain) Import(block *commonpb.Block) error {
	bundle, h := c.Bundle(), block.GetHeader()
	switch {
	case h.GetNumber() != c.number:
		return fmt.Errorf("got block %d, expected %d", h.GetNumber(), c.number)
	case !bytes.Equal(h.PreviousHash, c.previous):
		return fmt.Errorf("block %d does not follow block %d: wrong previous hash", h.Number, c.number-1)
	}
	if err := protoutil.CheckBlock(block); err != nil {
		return err
	}
	if err := bundle.VerifySeal(h, block.Metadata); err != nil {
		return err
	}
	lastConfig, consenter, err := protoutil.OrdererMetadata(block.Metadata)
	if err != nil {
		return err
	}
	applied, members, err := c.log.Parse(consenter, c.members)
	if err != nil {
		return err
	}
	config := bundle
	if lastConfig == h.Number {
		if config, err = channelconfig.FromBlock(block); err != nil {
			return err
		}
	}
	if len(members.IDs) != len(config.Orderer.Consenters) {
		return fmt.Errorf("block %d: %d ids of %d consenters", h.Number, len(members.IDs), len(config.Orderer.Consenters))
	}
	if err := c.appendSealed(block); err != nil {
		return fmt.Errorf("%w: block %d: %w", ErrOwn, h.Number, err)
	}
	c.lastConfig, c.members = lastConfig, members
	c.cutter.Cut()
	c.sealed(h, block.Metadata, applied)
	c.hub.wake()
	if config != bundle {
		c.configure(config)
	}
	if err := c.forgetLost(); err != nil {
		return fmt.Errorf("%w: %w", ErrOwn, err)
	}
	return nil
}

// appendSealed appends what there is not yet of a block, which has been checked. What there is must be of the same block.
func (c *Chain) appendSealed(block *commonpb.Block) error {
	if err := c.lost.block(block.Header); err != nil {
		return err
	}
	txs := block.Data.GetData()
	if had := max(c.count, len(c.tail)); len(txs) < had {
		return fmt.Errorf("%w: of %d transactions on disk it has %d", ErrOtherLog, had, len(txs))
	}
	for _, tx := range txs[c.count:] {
		if err := c.appendTx(tx); err != nil {
			return err
		}
	}
	if !bytes.Equal(c.hasher.Sum(), block.Header.DataHash) {
		return fmt.Errorf("%w: it has other transactions than those that were applied", ErrOtherLog)
	}
	return c.store.AppendSeal(block.Header, block.Metadata)
}
