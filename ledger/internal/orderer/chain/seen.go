package chain

import (
	"bytes"
	"errors"
	"fmt"

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
}

func (c *Chain) seeAgain(last *commonpb.Block) (*seenBlock, error) {
	number := last.Header.Number
	if number == 0 {
		return nil, nil
	}
	s := &seenBlock{number: number, txs: last.Data.GetData()}
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
	return s, nil
}

// compare takes an entry that is in the block.
func (s *seenBlock) compare(entry *streampb.LogEntry) error {
	if s == nil {
		return nil
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
func (s *seenBlock) complete() error {
	if s != nil && len(s.txs) > 0 {
		return fmt.Errorf("%w: %d transactions of block %d are not in it", ErrOtherLog, len(s.txs), s.number)
	}
	return nil
}

// From is where a log that is not the orderer's own is to be read from: the last sealed block is compared with it.
func (c *Chain) From() Applied {
	if c.last != nil {
		return c.last.from
	}
	return c.applied
}
