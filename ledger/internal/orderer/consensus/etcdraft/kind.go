package etcdraft

import (
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
)

// Raft has the consenters that a channel's configuration names agree.
var Raft = consensus.Kind{
	Log: chain.RaftLog, Folder: folder, Kept: raftlog.Kept,
	Patience: func(o *channelconfig.Orderer) time.Duration { // as Fabric
		return 3 * o.Raft.TickInterval * time.Duration(o.Raft.ElectionTick)
	},
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		cfg := configOf(s)
		cfg.Raft = s.Bundle().Orderer.Raft
		if s.ID <= s.Founders {
			for id := range s.Founders {
				cfg.Voters = append(cfg.Voters, id+1)
			}
		}
		return openShown(cfg, host)
	},
}

// Solo is a group of one, which no configuration names.
var Solo = consensus.Kind{
	Log: chain.RaftLog, Folder: folder, Kept: raftlog.Kept,
	Open: func(s consensus.Settings, host consensus.Host) (consensus.Consenter, error) {
		cfg := configOf(s)
		cfg.Raft = channelconfig.RaftOptions{TickInterval: 100 * time.Millisecond, ElectionTick: 10, HeartbeatTick: 1, SnapshotInterval: 16 << 20}
		cfg.Voters = []uint64{s.ID}
		return openShown(cfg, host)
	},
}

func openShown(cfg Config, host consensus.Host) (consensus.Consenter, error) {
	n, err := Open(cfg, host)
	if err != nil {
		return nil, err
	}
	n.show()
	return n, nil
}

const folder = "raft"

var (
	streamDelays = Delays{Pace: 4 * time.Millisecond, MostPace: 12 * time.Millisecond, Hold: 5 * time.Millisecond, SpareHold: 10 * time.Millisecond}
	// blockDelays are for where a transaction waits for its block far longer.
	blockDelays = Delays{Pace: 20 * time.Millisecond, MostPace: 20 * time.Millisecond, Hold: 25 * time.Millisecond, SpareHold: 50 * time.Millisecond}
)

func configOf(s consensus.Settings) Config {
	o := &s.Bundle().Orderer
	cfg := Config{
		Channel: s.Channel, ID: s.ID, Dir: s.Dir, Delays: streamDelays, CutInterval: s.CutInterval,
		Sequence: func() uint64 { return s.Bundle().Sequence },
	}
	switch {
	case s.Unpaced:
		cfg.Delays = Delays{}
	case channelconfig.WaitsForBlocks(o.Mode, o.MaxMessageCount):
		cfg.Delays = blockDelays
	}
	return cfg
}
