// Package setup makes the folder of a bundled network: keys and certificates,
// genesis blocks, node configurations and the description network.json.
package setup

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/problems"
)

// Options are the shape of a network; Defaults suggests a value for each.
type Options struct {
	// Dir is the folder to make; it may exist if it is empty.
	Dir string
	// Orgs is how many organisations have peers, and PeersPerOrg how many each of them has.
	Orgs        int
	PeersPerOrg int
	// Orderers is how many order: 3 bear the failure of one, 5 of two. Solo has one.
	Orderers int
	// Channels are the channels' names.
	Channels []string
	// Mode is "stream", where each transaction leaves as soon as it is ordered, or "block", Fabric's batches.
	Mode string
	// Consenter is how orderers agree: a key of consenters.
	Consenter string
	// Brokers is how many brokers are placed for the consenter kafka; another program runs them; 0: 3.
	Brokers int
	// SequencerMemory has the sequencer answer before its log is on disk.
	SequencerMemory bool
	// VolatileVotes is nodeconfig.Config's, of the orderers.
	VolatileVotes bool
	// MaxMessageCount is the transactions of a block, in block mode. From 50 on writes are spaced (WireGap).
	MaxMessageCount uint32
	// PreferredMaxBytes is the size at which a block is cut, in both modes; at most AbsoluteMaxBytes.
	PreferredMaxBytes uint32
	// AbsoluteMaxBytes is the size of the largest transaction that is accepted, itself at most channelconfig.MostBytes.
	AbsoluteMaxBytes uint32
	// BatchTimeout is how long a block may stay open in block mode.
	BatchTimeout time.Duration
	// VirtualBlockTxs is how many transactions one signature of an orderer covers, in stream mode.
	VirtualBlockTxs uint32
	// VirtualBlockInterval is how long a virtual block may stay open.
	VirtualBlockInterval time.Duration
	// RaftTick is the unit of Raft's clock: a leader is heard of once a tick.
	RaftTick time.Duration
	// ElectionTicks is how many ticks without a leader pass before an election; RaftTick times this is how long an
	// outage lasts at least.
	ElectionTicks uint32
	// SnapshotBytes is how many bytes of Raft's log lie between two snapshots: what a restart reads again.
	SnapshotBytes uint32
	// BasePort is the first of the ports, which follow each other.
	BasePort int
	// Chaincodes are the chaincodes that each peer has, as NAME or NAME=POLICY. Of a name alone any peer may endorse.
	Chaincodes []string
	// NoTLS leaves all connections plain and orderers unauthenticated: for measurements only.
	NoTLS bool
	// ChaincodeTLS is whether peers and chaincodes too know each other by certificate.
	ChaincodeTLS bool
	// Pprof is whether the operations endpoints serve /debug/pprof.
	Pprof bool
	// VerifyWorkers, CheckpointInterval, Processors and WireGap are those of nodeconfig.Config, but for two values:
	// Processors 0 stands for process.FairProcessors of this host, a WireGap below 0 for what suits the mode.
	VerifyWorkers      int
	CheckpointInterval int
	Processors         int
	WireGap            time.Duration
	// LikeFabric makes the nodes those of nodeconfig.Config.LikeFabric, and leaves Processors and WireGap at what Fabric's
	// processes have: every core, and no gap.
	LikeFabric bool
	// Kubernetes is the headless Service of the nodes' StatefulSets; empty: all nodes are on 127.0.0.1.
	Kubernetes string
}

// Defaults is the network that the plain command makes. Batch sizes are Fabric's
// own; Raft's tick is a fifth of Fabric's, for failover within 3 s.
func Defaults() Options {
	return Options{
		Orgs: 2, PeersPerOrg: 2, Orderers: 3, Channels: []string{"mychannel"}, Mode: "stream", Consenter: "raft",
		MaxMessageCount: 500, PreferredMaxBytes: 2 << 20, AbsoluteMaxBytes: 10 << 20, BatchTimeout: 2 * time.Second,
		VirtualBlockTxs: 100, VirtualBlockInterval: 100 * time.Millisecond,
		RaftTick: 100 * time.Millisecond, ElectionTicks: 10, SnapshotBytes: 16 << 20,
		WireGap: -1, BasePort: 17000, Chaincodes: []string{"smallbank"},
	}
}

// heartbeatTicks is after how many ticks a Raft leader is heard of.
const heartbeatTicks = 1

// blockWireGap is the gap where a transaction waits for its block far longer.
const blockWireGap = 8 * time.Millisecond

// consenter is what a value of --consenter means.
type consenter struct {
	consensusType string
	alone         bool // alone is whether there is one orderer
	ticks         bool // ticks is whether it has Raft's values
	grows         bool // grows is whether orderers are added to those that the network began with
	least         int  // least is how many orderers there are at least
	sequencer     bool // sequencer is whether there is one
	votes         bool // votes is whether the orderers' log of votes may be volatile
	brokers       int  // brokers is how many are placed by default, of which one may fail; 0: it has none
}

// consenters are the kinds by their names on the command line. What flags say of kinds is made from it.
var consenters = map[string]consenter{
	"raft":      {consensusType: channelconfig.Raft, ticks: true, grows: true},
	"solo":      {consensusType: channelconfig.Solo, alone: true},
	"kafka":     {consensusType: channelconfig.Kafka, brokers: 3},
	"bft":       {consensusType: channelconfig.BFT, least: 4, grows: true, votes: true},
	"sequencer": {consensusType: channelconfig.Sequencer, sequencer: true},
	"zyzzyva":   {consensusType: channelconfig.Zyzzyva, least: 4, grows: true, votes: true},
}

// ConsensusType is what a value of --consenter stands for in a channel's configuration; empty where there is none.
func ConsensusType(consenter string) string { return consenters[consenter].consensusType }

func (c consenter) hasBrokers() bool   { return c.brokers > 0 }
func (c consenter) hasSequencer() bool { return c.sequencer }
func (c consenter) hasVotes() bool     { return c.votes }

// outside is whether it needs a process that is neither an orderer nor a peer.
func (c consenter) outside() bool { return c.hasBrokers() || c.hasSequencer() }

// named is the names of the kinds of which something is so, as an alternative: "kafka or sequencer"; nil stands for all.
func named(is func(consenter) bool) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(consenters)) {
		if is == nil || is(consenters[name]) {
			names = append(names, name)
		}
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

var modes = map[string]channelconfig.Mode{"stream": channelconfig.Stream, "block": channelconfig.Block}

// validate returns every problem of the options.
func (o *Options) validate() error {
	var found problems.List
	found.If(o.Dir == "", "--dir is missing: the folder to make is accepted")
	for _, n := range []struct {
		flag      string
		value     int
		low, high int
	}{
		{"orgs", o.Orgs, 1, 26}, {"peers-per-org", o.PeersPerOrg, 1, 100}, {"orderers", o.Orderers, 1, 25}, {"brokers", o.Brokers, 0, 9},
		{"base-port", o.BasePort, 1024, 65000}, {"processors", o.Processors, 0, 1024}, {"verify-workers", o.VerifyWorkers, 0, 1024},
		{"checkpoint-interval", o.CheckpointInterval, 0, 1 << 30},
	} {
		found.If(n.value < n.low || n.value > n.high, "--%s %d: %d to %d is accepted", n.flag, n.value, n.low, n.high)
	}
	found.If(o.LikeFabric && (o.Processors > 0 || o.WireGap > 0), "--like-fabric: neither --processors nor --wire-gap is accepted beside it")
	found.If(o.WireGap > nodeconfig.MaxWireGap, "--wire-gap %s: 0s to %s is accepted", o.WireGap, nodeconfig.MaxWireGap)
	_, knownMode := modes[o.Mode]
	found.If(!knownMode, "--mode %q: stream and block are accepted", o.Mode)
	how, known := consenters[o.Consenter]
	found.If(!known, "--consenter %q: %s is accepted", o.Consenter, named(nil))
	found.If(how.alone && o.Orderers != 1, "--consenter %s --orderers %d: %[1]s is one orderer", o.Consenter, o.Orderers)
	found.If(o.Orderers < how.least, "--consenter %s --orderers %d: %d to 25 are accepted, of which fewer than a third may lie", o.Consenter, o.Orderers, how.least)
	found.If(o.Brokers > 0 && !how.hasBrokers(), "--brokers %d: only --consenter %s has brokers", o.Brokers, named(consenter.hasBrokers))
	found.If(o.SequencerMemory && !how.hasSequencer(), "--sequencer-memory: only --consenter %s has a sequencer", named(consenter.hasSequencer))
	found.If(o.VolatileVotes && !how.hasVotes(), "--volatile-votes: only --consenter %s takes it", named(consenter.hasVotes))
	found.If(o.Kubernetes != "" && !serviceName.MatchString(o.Kubernetes),
		"--kubernetes %q: the name of a Service, of lower case letters, digits and dashes, is accepted", o.Kubernetes)
	found.If(o.Kubernetes != "" && (o.ChaincodeTLS || how.outside()),
		"--kubernetes %s: it is accepted without --chaincode-tls and without --consenter %s", o.Kubernetes, named(consenter.outside))
	o.validateOrdering(&found)
	found.If(len(o.Channels) == 0, "--channel: at least one is accepted")
	seen := map[string]bool{}
	for _, name := range o.Channels {
		found.If(!validChannel(name) || seen[name],
			"--channel %q: distinct names of lower case letters, digits, dots and dashes that start with a letter are accepted", name)
		seen[name] = true
	}
	return found.Err()
}

// validateOrdering finds what no genesis block can have: keys are made before it is, and they keep the folder from being
// used again.
func (o *Options) validateOrdering(found *problems.List) {
	positive := func(flag string, value uint32) {
		found.If(value == 0, "--%s 0: a number above 0 is accepted", flag)
	}
	lasting := func(flag string, value time.Duration) {
		found.If(value <= 0, "--%s %s: a duration above 0 is accepted", flag, value)
	}
	positive("max-message-count", o.MaxMessageCount)
	positive("preferred-max-bytes", o.PreferredMaxBytes)
	positive("absolute-max-bytes", o.AbsoluteMaxBytes)
	found.If(o.PreferredMaxBytes > o.AbsoluteMaxBytes, "--preferred-max-bytes %d: at most --absolute-max-bytes, %d, is accepted", o.PreferredMaxBytes, o.AbsoluteMaxBytes)
	most := channelconfig.MostBytes(consenters[o.Consenter].consensusType)
	found.If(int(o.AbsoluteMaxBytes) > most, "--absolute-max-bytes %d: at most %d is accepted with --consenter %s", o.AbsoluteMaxBytes, most, o.Consenter)
	lasting("batch-timeout", o.BatchTimeout)
	if modes[o.Mode] == channelconfig.Stream {
		positive("virtual-block-txs", o.VirtualBlockTxs)
		lasting("virtual-block-interval", o.VirtualBlockInterval)
	}
	if consenters[o.Consenter].ticks {
		lasting("raft-tick", o.RaftTick)
		found.If(o.ElectionTicks <= heartbeatTicks, "--election-ticks %d: a number above %d is accepted", o.ElectionTicks, heartbeatTicks)
		positive("snapshot-bytes", o.SnapshotBytes)
	}
}

// serviceName is RFC 1035's label, which a Service's name must be.
var serviceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// validChannel is Fabric's rule for channel names.
func validChannel(name string) bool {
	if name == "" || len(name) > 249 || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == "" && filepath.Base(name) == name
}

// chaincodes reads the --chaincode values; a name alone may be endorsed by any
// organisation's peer.
func (o *Options) chaincodes() ([]channelconfig.GenesisChaincode, error) {
	var anyone, orgs []string
	for i := range o.Orgs {
		anyone, orgs = append(anyone, fmt.Sprintf("'%s.peer'", orgMSP(i))), append(orgs, orgMSP(i))
	}
	var out []channelconfig.GenesisChaincode
	seen := map[string]bool{}
	for _, text := range o.Chaincodes {
		name, rule, ok := strings.Cut(text, "=")
		if !ok {
			rule = "OR(" + strings.Join(anyone, ",") + ")"
		}
		if seen[name] {
			return nil, fmt.Errorf("--chaincode %q: distinct names, as NAME or NAME=POLICY, are accepted", text)
		}
		if err := channelconfig.CheckChaincodeName(name); err != nil {
			return nil, fmt.Errorf("--chaincode %q: %w", text, err)
		}
		parsed, err := policy.Parse(rule)
		if err == nil {
			err = policy.CheckOrganisations(parsed, orgs)
		}
		if err != nil {
			return nil, fmt.Errorf("--chaincode %s: %w", name, err)
		}
		seen[name] = true
		out = append(out, channelconfig.GenesisChaincode{Name: name, Version: chaincodeVersion, Policy: rule})
	}
	return out, nil
}

const chaincodeVersion = "1.0"
