package replica

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// former are the keys of the consenters of the configuration before the one in force, by id, and the epoch that the one in
// force begins; nil where there is none before.
func former(host consensus.Host) (keys map[uint64]*identity.Identity, epoch uint64, err error) {
	newest, err := host.Block(host.Height() - 1)
	if err != nil {
		return nil, 0, err
	}
	inForce, _, err := protoutil.OrdererMetadata(newest.Metadata)
	if err != nil || inForce == 0 {
		return nil, 0, err
	}
	change, err := host.Block(inForce)
	if err != nil {
		return nil, 0, err
	}
	began, _, err := placeOf(change, channelconfig.Membership{})
	if err != nil {
		return nil, 0, err
	}
	last, err := host.Block(inForce - 1)
	if err != nil {
		return nil, 0, err
	}
	number, _, err := protoutil.OrdererMetadata(last.Metadata)
	if err != nil {
		return nil, 0, err
	}
	config, err := host.Block(number)
	if err != nil {
		return nil, 0, err
	}
	bundle, err := channelconfig.FromBlock(config)
	if err != nil {
		return nil, 0, err
	}
	members := channelconfig.FirstMembership(bundle.Orderer.Consenters)
	if inForce > 1 { // else it is the genesis block, which names no members
		if _, members, err = placeOf(last, members); err != nil {
			return nil, 0, err
		}
	}
	if len(members.IDs) != len(bundle.Orderer.Numbers) {
		return nil, 0, fmt.Errorf("block %d: %d ids of %d consenters", inForce-1, len(members.IDs), len(bundle.Orderer.Numbers))
	}
	return keysOf(bundle, members.IDs), began.Index, nil
}

// placeOf is where a block ends in the log, and its consenters, who are those given where it names none.
func placeOf(block *commonpb.Block, members channelconfig.Membership) (chain.Applied, channelconfig.Membership, error) {
	_, consenter, err := protoutil.OrdererMetadata(block.Metadata)
	if err != nil {
		return chain.Applied{}, members, err
	}
	return chain.RaftLog.Parse(consenter, members)
}

// keysOf are the keys of a configuration's consenters, who have these ids.
func keysOf(bundle *channelconfig.Bundle, ids []uint64) map[uint64]*identity.Identity {
	keys := map[uint64]*identity.Identity{}
	for i, id := range ids {
		key, err := bundle.MSP.DeserializeUndated(bundle.Orderer.Identities[bundle.Orderer.Numbers[i]])
		if err != nil {
			log.Errorf("[channel: %s] consenter %d: %s: nothing that it signs counts", bundle.ChannelID, id, err)
			continue
		}
		keys[id] = key
	}
	return keys
}
