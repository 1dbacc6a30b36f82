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
	lastConfig, _, err := protoutil.OrdererMetadata(block.Metadata)
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", number, err)
	}
	config, err := c.store.Block(lastConfig)
	if err != nil {
		return nil, err
	}
	bundle, err := channelconfig.FromBlock(config)
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", lastConfig, err)
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

// endedBy errs where an entry does not end the block.
func (e *openEnd) endedBy(index uint64, entry *streampb.LogEntry) error {
	if e == nil || entry.Cut && (entry.CutBlock == 0 || entry.CutBlock == e.number) {
		return nil
	}
	for _, tx := range entry.Txs {
		kind := protoutil.HeaderType(tx)
		if kind < 0 { // it is left out
			continue
		}
		if before, _ := e.cutter.Add(len(tx), kind == int32(commonpb.HeaderType_CONFIG)); before {
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
	end, err := c.endOf(last)
	if err != nil {
		return nil, err
	}
	s := &seenBlock{number: number, txs: last.Data.GetData(), last: end}
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
		if err := s.before.endedBy(index, entry); err != nil {
			return err
		}
	}
	for _, tx := range entry.Txs {
		if protoutil.HeaderType(tx) < 0 { // it was left out
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
	return s.last.endedBy(index, entry)
}

// From is where a log that is not the orderer's own is to be read from: the last sealed block is compared with it.
func (c *Chain) From() Applied {
	if c.last != nil {
		return c.last.from
	}
	return c.applied
}
