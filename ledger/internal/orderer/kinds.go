package orderer

import (
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/etcdraft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/sequencer"
)

// kinds are the ways to agree, by the consensus type of a channel's configuration.
var kinds = map[string]*consensus.Kind{
	channelconfig.Raft:      &etcdraft.Raft,
	channelconfig.Solo:      &etcdraft.Solo,
	channelconfig.Kafka:     &kafka.Kind,
	channelconfig.BFT:       &replica.PBFT,
	channelconfig.Sequencer: &sequencer.Kind,
	channelconfig.Zyzzyva:   &replica.Zyzzyva,
}
