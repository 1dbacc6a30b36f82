package chain

import (
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// Applied is a place in the log of what was ordered: the first Txs transactions of entry
// Index, and all entries before, are in sealed blocks. Indexes begin at 1.
type Applied struct {
	Index uint64
	Txs   uint32
}

// Log is what a chain knows of the log that it is made of.
type Log struct {
	// External is true where others keep the log. They may lose what they have acknowledged, and take other transactions
	// in its place: after a start the last sealed block is compared with what the log brings again.
	External bool
	// Kept errs where it is not certain that what damage to the blocks has lost can come again; nil: it never is.
	Kept func(blockfile.Lost) error
	// Check says why a configuration does not allow a transaction that was checked under another one. All orderers have to say
	// the same at any time. nil: nothing in the log is checked again.
	Check func(config *channelconfig.Bundle, tx []byte) error
	// Marshal spells the place where a block ends, and who orders after it, as the consenter's metadata of the block.
	Marshal func(at Applied, members channelconfig.Membership) ([]byte, error)
	// Parse reads what Marshal has written. Known are the members after the block before, which hold where a block names
	// none. The genesis block has no metadata: nothing is applied there.
	Parse func(raw []byte, known channelconfig.Membership) (Applied, channelconfig.Membership, error)
}

// RaftLog writes the metadata of Fabric's etcdraft.
var RaftLog = Log{
	Marshal: func(at Applied, members channelconfig.Membership) ([]byte, error) {
		return proto.Marshal(&etcdraftpb.BlockMetadata{
			RaftIndex: at.Index, EntryTxs: at.Txs, ConsenterIds: members.IDs, NextConsenterId: members.Next,
		})
	},
	Parse: func(raw []byte, known channelconfig.Membership) (Applied, channelconfig.Membership, error) {
		var metadata etcdraftpb.BlockMetadata
		err := protoutil.Unmarshal(raw, &metadata)
		if len(metadata.ConsenterIds) > 0 {
			known = channelconfig.Membership{IDs: metadata.ConsenterIds, Next: metadata.NextConsenterId}
		}
		return Applied{Index: metadata.RaftIndex, Txs: metadata.EntryTxs}, known, err
	},
}

// KafkaLog writes the metadata of Fabric's Kafka consenter: of a record the index is the offset plus one. A record holds
// one transaction, or none: a place within one is a place before or after it.
var KafkaLog = Log{
	External: true,
	Marshal: func(at Applied, _ channelconfig.Membership) ([]byte, error) {
		last := int64(at.Index) - 2
		if at.Txs > 0 {
			last++
		}
		return proto.Marshal(&ordererpb.KafkaMetadata{LastOffsetPersisted: last})
	},
	Parse: func(raw []byte, known channelconfig.Membership) (Applied, channelconfig.Membership, error) {
		var metadata ordererpb.KafkaMetadata
		err := protoutil.Unmarshal(raw, &metadata)
		return Applied{Index: uint64(metadata.LastOffsetPersisted + 2)}, known, err
	},
}
