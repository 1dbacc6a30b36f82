package replica

import (
	"time"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
)

// PBFT has the consenters that a channel's configuration names agree, of which fewer than a third may lie.
var PBFT = consensus.Kind{
	Log: chain.RaftLog, Folder: "bft", Lingers: true,
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

// interval and window bound what a replica keeps: a window of the largest entries is half a gigabyte, one of the usual
// ones a few megabytes.
const (
	interval = 128
	window   = 512
	// overlap lets entries overlap; what arrives meanwhile waits and goes out as one larger entry.
	overlap = 4
	pending = 1 << 15
	resend  = 250 * time.Millisecond
)

func configOf(s consensus.Settings) pbft.Config {
	o := s.Bundle().Orderer
	cfg := pbft.Config{
		ID: s.ID, Domain: s.Channel, Interval: interval, Window: window, Overlap: overlap,
		BatchTxs: o.BFT.BatchTxs, BatchBytes: o.BFT.BatchBytes, Pending: pending, PendingBytes: 64 << 20,
		Timeout: o.BFT.ViewChangeTimeout, MaxTimeout: 16 * o.BFT.ViewChangeTimeout, Resend: resend,
	}
	for id := range s.Founders {
		cfg.Group.Members = append(cfg.Group.Members, id+1)
	}
	return cfg
}
