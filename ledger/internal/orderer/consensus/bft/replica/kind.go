package replica

import (
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
)

// PBFT has the consenters that a channel's configuration names agree, of which fewer than a third may lie.
var PBFT = consensus.Kind{
	Log: chain.RaftLog, Folder: "bft", Votes: votelog.Exists, Patience: patience, Lingers: true, Keeps: true,
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		return Open(s, host, ProtocolOfPBFT(s))
	},
}

// ProtocolOfPBFT is PBFT as a channel's configuration has it.
func ProtocolOfPBFT(s consensus.Settings) Protocol {
	cfg := configOf(s)
	return Protocol{
		New: func(o bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			return pbft.New(cfg, o, state, records)
		},
		Encode: pbft.Encode, Decode: pbft.Decode, EncodeRecord: pbft.EncodeRecord, DecodeRecord: pbft.DecodeRecord,
		Checkpoint: pbft.CheckpointOf,
	}
}

// Zyzzyva has them agree by one message of the leader's where all answer alike. The replicas settle each entry among
// themselves and apply what is final: a ledger's follower takes back nothing before a seal. Clients that attend are told
// each replica's answer before that.
var Zyzzyva = consensus.Kind{
	Log: chain.RaftLog, Folder: "zyzzyva", Votes: votelog.Exists, Patience: patience, Lingers: true, Keeps: true,
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		return Open(s, host, ProtocolOfZyzzyva(s))
	},
}

// ProtocolOfZyzzyva is Zyzzyva as a channel's configuration has it.
func ProtocolOfZyzzyva(s consensus.Settings) Protocol {
	cfg := configOfZyzzyva(s)
	return Protocol{
		New: func(o bft.Oracle, state bft.State, records []bft.Record) bft.Core {
			return zyzzyva.New(cfg, o, state, records)
		},
		Encode: zyzzyva.Encode, Decode: zyzzyva.Decode, EncodeRecord: zyzzyva.EncodeRecord, DecodeRecord: zyzzyva.DecodeRecord,
		Checkpoint: zyzzyva.CheckpointOf, Address: zyzzyva.Address, Hears: zyzzyva.ClientKind,
	}
}

// fastShare is which part of the time that a leader has the replicas wait for all, before a quorum's certificate will do.
const fastShare = 40

// spareShare is which part of that time spares of PBFT leave it to the others to decide, at most.
const spareShare = 20

// interval and window bound what a replica keeps: a window of usual entries is a few megabytes, one of transactions as large
// as AbsoluteMaxBytes allows (10 MiB unless configured) five gigabytes.
const (
	interval = 128
	window   = 512
	// overlap lets entries overlap; what arrives meanwhile waits and goes out as one larger entry.
	overlap = 4
	pending = 1 << 15
	resend  = 250 * time.Millisecond
)

// An entry costs all replicas its votes and syncs, so a leader spaces them as Raft's does, and further.
const (
	streamPace, streamMostPace = 4 * time.Millisecond, 24 * time.Millisecond
	// blockPace is for where a transaction waits for its block far longer.
	blockPace = 20 * time.Millisecond
	// cutWait is for how long a cut waits for a transaction in a stream, where nobody waits for a block's end.
	cutWait = 10 * time.Millisecond
)

// configOf is PBFT's by the configuration in force.
func configOf(s consensus.Settings) pbft.Config {
	o := s.Bundle().Orderer
	cfg := pbft.Config{
		ID: s.ID, Domain: s.Channel, Interval: interval, Window: window, Overlap: overlap, ProposeAtOnce: true,
		Limits: base.Limits{
			BatchTxs: o.BFT.BatchTxs, BatchBytes: o.BFT.BatchBytes,
			Timeout: o.BFT.ViewChangeTimeout, MaxTimeout: 16 * o.BFT.ViewChangeTimeout,
		},
		Pending: pending, PendingBytes: 64 << 20, SpareWait: o.BFT.ViewChangeTimeout / spareShare, Resend: resend,
		InForce: func() pbft.Config { return configOf(s) },
	}
	if !s.Unpaced {
		if cfg.Pace, cfg.MostPace = streamPace, streamMostPace; channelconfig.WaitsForBlocks(o.Mode, o.MaxMessageCount) {
			cfg.Pace, cfg.MostPace = blockPace, blockPace
		}
		if o.Mode == channelconfig.Stream {
			cfg.MarkWait = cutWait
		}
	}
	for id := range s.Founders {
		cfg.Group.Members = append(cfg.Group.Members, id+1)
	}
	return cfg
}

func configOfZyzzyva(s consensus.Settings) zyzzyva.Config {
	p := configOf(s)
	return zyzzyva.Config{
		ID: p.ID, Domain: p.Domain, Group: p.Group, Interval: p.Interval, Window: p.Window, Overlap: p.Overlap,
		Limits: p.Limits, Pending: p.Pending, PendingBytes: p.PendingBytes, Fast: p.Timeout / fastShare, Resend: p.Resend,
		InForce: func() zyzzyva.Config { return configOfZyzzyva(s) },
	}
}
