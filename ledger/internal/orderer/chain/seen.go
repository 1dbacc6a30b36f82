package chain

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/cutter"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// ErrOtherLog is what an error wraps when the log is not the one that the chain was made of.
var ErrOtherLog = errors.New("the log is not the one that this chain was made of")

// seenBlock is the last sealed block while an external log brings it again.
type seenBlock struct {
	number uint64
	from   Applied  // where the block began
	txs    [][]byte // those that the log has not brought yet
	before *openEnd // what the entry at from ended
	last   *openEnd // what the first entry behind the block ended

	// leftOut is Log.leftOut by the configuration of the block. No other one is in force where an entry ended a block.
	leftOut func(entry *streampb.LogEntry, tx []byte) error
}

// openEnd is a block that the next entry of the log ended: by the time, or since it had no room. nil: a block that ended
// with its last transaction.
type openEnd struct {
	number uint64
	cutter *cutter.Cutter // cutter has the block's transactions
}

// endOf finds out how a sealed block ended. An external log that has lost the entry which ended it, and has another one in
// its place, gives the same transactions and other blocks.
func (c *Chain) endOf(block *commonpb.Block) (*openEnd, error) {
	number := block.Header.Number
	bundle, err := c.configOf(number)
	if err != nil {
		return nil, err
	}
	cut, ended := cutter.For(&bundle.Orderer), false
	for _, tx := range block.Data.GetData() {
		_, ended = cut.Add(len(tx), protoutil.HeaderType(tx) == int32(commonpb.HeaderType_CONFIG))
	}
	if ended {
		return nil, nil
	}
	return &openEnd{number, cut}, nil
}

// configOf is the configuration that a block was made by: it came into force with the block before, or earlier.
func (c *Chain) configOf(number uint64) (*channelconfig.Bundle, error) {
	before, err := c.store.Block(number - 1)
	if err != nil {
		return nil, err
	}
	last, _, err := protoutil.OrdererMetadata(before.Metadata)
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", number-1, err)
	}
	config, err := c.store.Block(last)
	if err != nil {
		return nil, err
	}
	return channelconfig.FromBlock(config)
}

// ended errs where an entry does not end a block.
func (s *seenBlock) ended(e *openEnd, index uint64, entry *streampb.LogEntry) error {
	if e == nil || entry.Cut && (entry.CutBlock == 0 || entry.CutBlock == e.number) {
		return nil
	}
	for _, tx := range entry.Txs {
		if s.leftOut(entry, tx) != nil {
			continue
		}
		if before, _ := e.cutter.Add(len(tx), protoutil.HeaderType(tx) == int32(commonpb.HeaderType_CONFIG)); before {
			return nil
		}
	}
	return fmt.Errorf("%w: block %d ended at entry %d, which does not end it", ErrOtherLog, e.number, index)
}

func (c *Chain) seeAgain(last *commonpb.Block) (*seenBlock, error) {
	number := last.Header.Number
	if number == 0 {
		return nil, nil
	}
	config, err := c.configOf(number)
	if err != nil {
		return nil, err
	}
	s := &seenBlock{number: number, txs: last.Data.GetData()}
	s.leftOut = func(entry *streampb.LogEntry, tx []byte) error { return c.log.leftOut(config, entry, tx) }
	if s.last, err = c.endOf(last); err != nil {
		return nil, err
	}
	if number == 1 {
		return s, nil // it began with the log
	}
	before, err := c.store.Block(number - 1)
	if err != nil {
		return nil, err
	}
	_, consenter, err := protoutil.OrdererMetadata(before.Metadata)
	if err == nil {
		s.from, _, err = c.log.Parse(consenter, c.members)
	}
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", number-1, err)
	}
	s.before, err = c.endOf(before)
	return s, err
}

// compare takes an entry that is in the block.
func (s *seenBlock) compare(index uint64, entry *streampb.LogEntry) error {
	if s == nil {
		return nil
	}
	if index == s.from.Index {
		if err := s.ended(s.before, index, entry); err != nil {
			return err
		}
	}
	for _, tx := range entry.Txs {
		if s.leftOut(entry, tx) != nil {
			continue
		}
		if len(s.txs) == 0 || !bytes.Equal(s.txs[0], tx) {
			return fmt.Errorf("%w: another transaction where block %d has one", ErrOtherLog, s.number)
		}
		s.txs = s.txs[1:]
	}
	return nil
}

// complete is for the first entry that is not in the block.
func (s *seenBlock) complete(index uint64, entry *streampb.LogEntry) error {
	switch {
	case s == nil:
		return nil
	case len(s.txs) > 0:
		return fmt.Errorf("%w: %d transactions of block %d are not in it", ErrOtherLog, len(s.txs), s.number)
	}
	return s.ended(s.last, index, entry)
}

// From is where a log that is not the orderer's own is to be read from: the last sealed block is compared with it.
func (c *Chain) From() Applied {
	if c.last != nil {
		return c.last.from
	}
	return c.applied
}
