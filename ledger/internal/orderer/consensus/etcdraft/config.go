package etcdraft

import (
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/problems"
)

// Config is how a channel's log is kept.
type Config struct {
	// Channel is the channel's name, for the log's lines.
	Channel string
	// ID is this node's among the members, from 1 on.
	ID uint64
	// Voters are the members of a new group, this node among them; none: this node joins a group.
	Voters []uint64
	// Dir is the folder of the log.
	Dir string
	// Raft has the unit of the clock, how many of them lie between heartbeats and before an election, and the bytes of
	// log between two snapshots.
	Raft channelconfig.RaftOptions
	// CutInterval is how long a block may stay open. It is asked for each block.
	CutInterval func() time.Duration
	// Sequence is the number of the configuration in force. It is asked for each entry.
	Sequence func() uint64
	// Delays is for how long messages may wait to gather others.
	Delays Delays
}

// Delays are how long messages may wait to gather others: of 0 none waits. Each saves wake-ups of every orderer and peer,
// and adds at most itself to a transaction's latency, under load alone.
type Delays struct {
	// Pace is the time between two entries of a leader while transactions come in crowds.
	Pace time.Duration
	// MostPace is the most that Pace grows to where entries take long; at least Pace.
	MostPace time.Duration
	// Hold is how long a message without entries may wait for one with entries; more than Pace.
	Hold time.Duration
	// SpareHold is how long entries may wait for more on the way to a follower that no majority needs; far less than the
	// time before an election.
	SpareHold time.Duration
}

// validate returns every problem of the configuration.
func (c *Config) validate() error {
	var found problems.List
	found.If(c.ID == 0, "id 0: 1 or more is accepted")
	found.If(c.Dir == "", "no folder is named")
	found.If(len(c.Voters) > 0 && !slices.Contains(c.Voters, c.ID), "voters %v: all founders, node %d among them, or none are accepted", c.Voters, c.ID)
	found.If(c.Raft.TickInterval <= 0, "tick interval %s: a time above 0 is accepted", c.Raft.TickInterval)
	found.If(c.Raft.HeartbeatTick <= 0 || c.Raft.ElectionTick <= c.Raft.HeartbeatTick,
		"%d ticks before an election, %d between heartbeats: election > heartbeat > 0 is accepted", c.Raft.ElectionTick, c.Raft.HeartbeatTick)
	found.If(c.Raft.SnapshotInterval <= 0, "%d bytes between snapshots: more than 0 is accepted", c.Raft.SnapshotInterval)
	found.If(c.CutInterval == nil, "no time to cut a block is given")
	found.If(c.Sequence == nil, "no number of the configuration is given")
	d := c.Delays
	found.If(min(d.Pace, d.Hold, d.SpareHold) < 0 || d.MostPace < d.Pace, "delays %+v: 0 or more, and a most pace of pace or more, are accepted", d)
	return found.Err()
}
