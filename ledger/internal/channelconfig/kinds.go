package channelconfig

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// Consensus types, as they stand in the configuration.
const (
	Solo      = "solo"
	Raft      = "etcdraft"
	Kafka     = "kafka"
	BFT       = "BFT"
	Sequencer = "sequencer"
	Zyzzyva   = "zyzzyva"
)

// consensusType is what of the orderers' group belongs to one consensus type.
type consensusType struct {
	// decode reads it, from the type's metadata or from values of its own.
	decode func(o *Orderer, group *commonpb.ConfigGroup, metadata []byte) error
	// encode writes it, and gives the metadata.
	encode func(g *Genesis, group *commonpb.ConfigGroup) (metadata []byte)
	// capability is the channel's.
	capability string
	// honest is whether orderers are believed to crash, and never to lie (Trust).
	honest bool
	// histories is whether a client who hears the orderers' histories knows before they do what is ordered.
	histories bool
	// blocks is the policy BlockValidation; nil: any orderer's signature will do.
	blocks func(g *Genesis) *commonpb.SignaturePolicyEnvelope
	// largest is the most that AbsoluteMaxBytes may be; 0: as much as any orderer takes.
	largest int
	// change adds, removes or changes a consenter in the orderers' group; nil: consenters do not come and go.
	change func(orderer *commonpb.ConfigGroup, c *ConsenterPatch, fresh *etcdraftpb.Consenter) error
}

const (
	// largestTransaction leaves 4 MiB of a frame of the block file (256 MiB) to what surrounds a transaction there and in
	// the messages between nodes.
	largestTransaction = 252 << 20
	// kafkaRequest is the most that a broker reads at once unless it is told otherwise (socket.request.max.bytes), and
	// kafkaSlack what surrounds a transaction in it.
	kafkaRequest, kafkaSlack = 100 << 20, 64 << 10
)

// MostBytes is the largest AbsoluteMaxBytes that orderers of a consensus type take.
func MostBytes(consensusType string) int {
	if most := consensusTypes[consensusType].largest; most != 0 {
		return most
	}
	return largestTransaction
}

var consensusTypes = map[string]consensusType{
	Solo: {
		capability: capability, honest: true,
		decode: func(*Orderer, *commonpb.ConfigGroup, []byte) error { return nil },
		encode: func(*Genesis, *commonpb.ConfigGroup) []byte { return nil },
	},
	Raft: {
		capability: capability, honest: true,
		decode: decodeRaft,
		encode: func(g *Genesis, _ *commonpb.ConfigGroup) []byte {
			return mustMarshal(&etcdraftpb.ConfigMetadata{Consenters: g.Consenters, Options: g.RaftOptions})
		},
		change: changeRaft,
	},
	Kafka: {
		capability: capability, honest: true, largest: kafkaRequest - kafkaSlack,
		decode: decodeBrokers,
		encode: func(g *Genesis, group *commonpb.ConfigGroup) []byte {
			set(group, keyKafkaBrokers, &ordererpb.KafkaBrokers{Brokers: g.KafkaBrokers})
			return nil
		},
	},
	Sequencer: {
		capability: capability, honest: true,
		decode: decodeSequencer,
		encode: func(g *Genesis, _ *commonpb.ConfigGroup) []byte {
			return mustMarshal(&sequencerpb.Place{Address: g.Sequencer})
		},
	},
	BFT: {
		capability: bftCapability, decode: decodeBFT, encode: encodeBFT, blocks: quorumOfConsenters, change: changeBFT,
	},
	Zyzzyva: {
		capability: bftCapability, histories: true, decode: decodeBFT, encode: encodeBFT, blocks: quorumOfConsenters, change: changeBFT,
	},
}

func unknownType(name string) error {
	return fmt.Errorf("consensus type %q: %s are accepted", name, strings.Join(slices.Sorted(maps.Keys(consensusTypes)), ", "))
}

func decodeRaft(o *Orderer, _ *commonpb.ConfigGroup, metadata []byte) error {
	var cfg etcdraftpb.ConfigMetadata
	if err := protoutil.Unmarshal(metadata, &cfg); err != nil {
		return err
	}
	if len(cfg.Consenters) == 0 {
		return fmt.Errorf("%s has no consenters", Raft)
	}
	opts := cfg.GetOptions()
	tick, err := positiveDuration("tick_interval", opts.GetTickInterval())
	if err != nil {
		return err
	}
	if opts.ElectionTick <= opts.HeartbeatTick || opts.HeartbeatTick == 0 {
		return fmt.Errorf("election_tick %d, heartbeat_tick %d: election_tick > heartbeat_tick > 0 is accepted", opts.ElectionTick, opts.HeartbeatTick)
	}
	if opts.SnapshotIntervalSize == 0 {
		return fmt.Errorf("snapshot_interval_size: a number of bytes above 0 is accepted")
	}
	o.Consenters = cfg.Consenters
	o.Raft = RaftOptions{
		TickInterval: tick, ElectionTick: int(opts.ElectionTick), HeartbeatTick: int(opts.HeartbeatTick),
		SnapshotInterval: int(opts.SnapshotIntervalSize),
	}
	return nil
}

func decodeSequencer(o *Orderer, _ *commonpb.ConfigGroup, metadata []byte) error {
	var place sequencerpb.Place
	if err := protoutil.Unmarshal(metadata, &place); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(place.Address); err != nil {
		return fmt.Errorf("%s at %q: host:port is accepted", Sequencer, place.Address)
	}
	o.Sequencer = place.Address
	return nil
}

func decodeBrokers(o *Orderer, group *commonpb.ConfigGroup, _ []byte) error {
	var brokers ordererpb.KafkaBrokers
	if err := get(group, keyKafkaBrokers, &brokers); err != nil {
		return err
	}
	if len(brokers.Brokers) == 0 {
		return fmt.Errorf("%s: at least one host:port is accepted", keyKafkaBrokers)
	}
	for _, broker := range brokers.Brokers {
		if _, _, err := net.SplitHostPort(broker); err != nil {
			return fmt.Errorf("%s %q: host:port is accepted", keyKafkaBrokers, broker)
		}
	}
	o.KafkaBrokers = brokers.Brokers
	return nil
}
