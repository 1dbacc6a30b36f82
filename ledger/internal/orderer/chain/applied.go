package chain

import (
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// Applied is a place in the consensus log: the first Txs transactions of entry
// Index, and all entries before, are in sealed blocks. Indexes begin at 1: of Kafka it
// is the offset plus one.
type Applied struct {
	Index uint64
	Txs   uint32
}

// marshal spells it, and who the consenters are, as the consenter's metadata of a block.
func (a Applied) marshal(consensusType string, members channelconfig.Membership) ([]byte, error) {
	if consensusType != channelconfig.Kafka {
		return proto.Marshal(&etcdraftpb.BlockMetadata{
			RaftIndex: a.Index, EntryTxs: a.Txs, ConsenterIds: members.IDs, NextConsenterId: members.Next,
		})
	}
	// A record holds one transaction, or none: a place within one is a place before or after it.
	last := int64(a.Index) - 2
	if a.Txs > 0 {
		last++
	}
	return proto.Marshal(&ordererpb.KafkaMetadata{LastOffsetPersisted: last})
}

// parseMetadata reads what marshal has written. The genesis block has none: nothing is applied there.
// A block without consenters' ids says nothing of them: known, those of the block before, hold.
func parseMetadata(consensusType string, raw []byte, known channelconfig.Membership) (Applied, channelconfig.Membership, error) {
	if consensusType != channelconfig.Kafka {
		var metadata etcdraftpb.BlockMetadata
		err := protoutil.Unmarshal(raw, &metadata)
		if len(metadata.ConsenterIds) > 0 {
			known = channelconfig.Membership{IDs: metadata.ConsenterIds, Next: metadata.NextConsenterId}
		}
		return Applied{Index: metadata.RaftIndex, Txs: metadata.EntryTxs}, known, err
	}
	var metadata ordererpb.KafkaMetadata
	err := protoutil.Unmarshal(raw, &metadata)
	return Applied{Index: uint64(metadata.LastOffsetPersisted + 2)}, known, err
}
