// Package setup makes the folder of a bundled network: keys and certificates,
// genesis blocks, node configurations and the description network.json.
package setup

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/policy"
)

// Options are the shape of a network.
type Options struct {
	Dir                  string
	Orgs                 int
	PeersPerOrg          int
	Orderers             int
	Channels             []string
	Mode                 string
	Consenter            string
	Brokers              int // of the consenter kafka; 0: 3
	MaxMessageCount      uint32
	PreferredMaxBytes    uint32
	AbsoluteMaxBytes     uint32
	BatchTimeout         time.Duration
	VirtualBlockTxs      uint32
	VirtualBlockInterval time.Duration
	RaftTick             time.Duration
	ElectionTicks        uint32
	SnapshotBytes        uint32
	BasePort             int
	Chaincodes           []string // name, or name=policy
	NoTLS                bool
	ChaincodeTLS         bool // also between peers and chaincodes, which know each other by certificate
	Pprof                bool
	VerifyWorkers        int           // of each peer and channel; 0: as many as it has threads
	CheckpointInterval   int           // transactions between two checkpoints of a peer; 0: nodeconfig's default
	Processors           int           // of each node; 0: process.FairProcessors of this host
	Kubernetes           string        // headless Service of the nodes' StatefulSets; empty: all on 127.0.0.1
	WireGap              time.Duration // between two writes to a connection under load; below 0: by the mode and the blocks
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

// blockWireGap is the gap where a transaction waits for its block far longer.
const blockWireGap = 8 * time.Millisecond

var consensusTypes = map[string]string{"raft": channelconfig.Raft, "solo": channelconfig.Solo, "kafka": channelconfig.Kafka}

var modes = map[string]channelconfig.Mode{"stream": channelconfig.Stream, "block": channelconfig.Block}

func (o *Options) check() error {
	if o.Dir == "" {
		return fmt.Errorf("--dir is missing: the folder to make is accepted")
	}
	for _, n := range []struct {
		flag      string
		value     int
		low, high int
	}{
		{"orgs", o.Orgs, 1, 26}, {"peers-per-org", o.PeersPerOrg, 1, 100}, {"orderers", o.Orderers, 1, 25}, {"brokers", o.Brokers, 0, 9},
		{"base-port", o.BasePort, 1024, 65000}, {"processors", o.Processors, 0, 1024}, {"verify-workers", o.VerifyWorkers, 0, 1024},
		{"checkpoint-interval", o.CheckpointInterval, 0, 1 << 30},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("--%s %d: %d to %d is accepted", n.flag, n.value, n.low, n.high)
		}
	}
	if o.WireGap > nodeconfig.MaxWireGap {
		return fmt.Errorf("--wire-gap %s: 0s to %s is accepted", o.WireGap, nodeconfig.MaxWireGap)
	}
	if _, ok := modes[o.Mode]; !ok {
		return fmt.Errorf("--mode %q: stream and block are accepted", o.Mode)
	}
	if _, ok := consensusTypes[o.Consenter]; !ok {
		return fmt.Errorf("--consenter %q: raft, solo and kafka are accepted", o.Consenter)
	}
	if o.Consenter == "solo" && o.Orderers != 1 {
		return fmt.Errorf("--consenter solo --orderers %d: solo is one orderer", o.Orderers)
	}
	if o.Brokers > 0 && o.Consenter != "kafka" {
		return fmt.Errorf("--brokers %d: only --consenter kafka has brokers", o.Brokers)
	}
	if o.Kubernetes != "" && !serviceName.MatchString(o.Kubernetes) {
		return fmt.Errorf("--kubernetes %q: the name of a Service, of lower case letters, digits and dashes, is accepted", o.Kubernetes)
	}
	if o.Kubernetes != "" && (o.ChaincodeTLS || o.Consenter == "kafka") {
		return fmt.Errorf("--kubernetes %s: it is accepted without --chaincode-tls and --consenter kafka", o.Kubernetes)
	}
	seen := map[string]bool{}
	for _, name := range o.Channels {
		if !validChannel(name) || seen[name] {
			return fmt.Errorf("--channel %q: distinct names of lower case letters, digits, dots and dashes that start with a letter are accepted", name)
		}
		seen[name] = true
	}
	if len(o.Channels) == 0 {
		return fmt.Errorf("--channel: at least one is accepted")
	}
	return nil
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
