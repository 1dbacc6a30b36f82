package chain

import (
	"errors"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var errNoTransaction = errors.New("it is no transaction")

// leftOut says why a transaction of an entry gets into no block by the configuration that is in force at its place; nil: it
// does. All orderers leave it out alike, for it follows from the log. What is no transaction would make the whole of a block
// one that nobody may take. What was checked under another configuration was on its way when this one came into force.
func (l *Log) leftOut(config *channelconfig.Bundle, entry *streampb.LogEntry, tx []byte) error {
	switch kind := protoutil.HeaderType(tx); {
	case kind < 0:
		return errNoTransaction
	case l.Check == nil || entry.Checked == 0 || entry.Checked == config.Sequence+1:
		return nil
	case kind == int32(commonpb.HeaderType_CONFIG): // it stays in the chain, with or without effect
		return nil
	}
	return l.Check(config, tx)
}
