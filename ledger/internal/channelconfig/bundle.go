package channelconfig

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// ErrInvalid is what every refused configuration wraps.
var ErrInvalid = errors.New("invalid channel configuration")

// Bundle is one version of a channel's configuration, decoded and checked. It is
// immutable: a configuration transaction makes a new one.
type Bundle struct {
	ChannelID  string
	Sequence   uint64
	Config     *commonpb.Config
	MSP        *identity.Manager
	Orderer    Orderer
	Orgs       map[string]Org // application organisations by MSP id
	Chaincodes map[string]*Chaincode

	policies map[string]policy.Evaluator
}

// Orderer is how the channel is ordered.
type Orderer struct {
	// ConsensusType is the kind of consenter: Solo, Raft, Kafka, BFT, Zyzzyva or Sequencer. It stays as it is while a channel lives.
	ConsensusType string
	// Consenters are the orderers that agree on the order, where the kind has any; the others follow them.
	Consenters []*etcdraftpb.Consenter
	// Raft holds the settings of Raft.
	Raft RaftOptions
	// BFT holds the settings of consenters of which some may lie, and Identities whose signatures count, by the
	// consenter's number.
	BFT        BFTOptions
	Identities map[uint32][]byte
	// Numbers are those of Consenters, in the same order, where the configuration gives them numbers.
	Numbers []uint32
	// KafkaBrokers are the host:port of the brokers to begin with, of Kafka.
	KafkaBrokers []string
	// Sequencer is the sequencer's host:port, of Sequencer.
	Sequencer string
	// MaxMessageCount is the transactions of a block in block mode.
	MaxMessageCount int
	// AbsoluteMaxBytes is the largest transaction, PreferredMaxBytes, which is not more, the size at which a block is cut.
	AbsoluteMaxBytes  int
	PreferredMaxBytes int
	// BatchTimeout is how long a block may stay open in block mode.
	BatchTimeout time.Duration
	// Mode is how transactions leave the orderer.
	Mode Mode
	// VirtualBlockTxs is the transactions of a virtual block, and VirtualBlockInterval how long one may stay open, in
	// stream mode.
	VirtualBlockTxs      int
	VirtualBlockInterval time.Duration
	// Addresses are the host:port of the orderers that organisations name, sorted.
	Addresses []string
	// Owners are the MSP ids of the organisations that name them, by address.
	Owners map[string]string
	// TLSRoots are the authorities of the orderers' TLS certificates.
	TLSRoots *x509.CertPool
}

// CutInterval is how long the channel's open block may stay open.
func (o *Orderer) CutInterval() time.Duration {
	if o.Mode == Block {
		return o.BatchTimeout
	}
	return o.VirtualBlockInterval
}

// longBlock fills in 20 ms at 2,500 transactions a second.
const longBlock = 50

// WaitsForBlocks reports whether a transaction waits for its block far longer than for anything else, so that messages
// on its way may be spaced. Blocks of a few transactions are cut at once.
func WaitsForBlocks(mode Mode, maxMessageCount int) bool {
	return mode == Block && maxMessageCount >= longBlock
}

// RaftOptions are the channel's Raft settings.
type RaftOptions struct {
	// TickInterval is the unit of Raft's clock; 100 ms is suggested, Fabric has 500.
	TickInterval time.Duration
	// ElectionTick is how many ticks without a leader pass before an election, more than HeartbeatTick; 10 is suggested.
	ElectionTick int
	// HeartbeatTick is how many ticks lie between two heartbeats of a leader; 1 is suggested.
	HeartbeatTick int
	// SnapshotInterval is the bytes of log between two snapshots; 16 MiB is suggested.
	SnapshotInterval int
}

// Org is an organisation whose peers and clients use the channel.
type Org struct {
	MSPID    string
	Peers    []string // host:port, from the anchor peers
	TLSRoots *x509.CertPool
}

// Chaincode is what may run on the channel and who must endorse it.
type Chaincode struct {
	Name, Version string
	Sequence      uint64
	Policy        policy.Evaluator
	Rule          []byte // the policy as it is defined, a marshalled protos.ApplicationPolicy
	// Layouts says which sets of endorsers suffice, the smallest first. Gateways alone ask; it is worked out once.
	Layouts func() []policy.Layout
	// Organisations are those that the policy names, sorted. With many of them, layouts are for some only.
	Organisations []string
}

// Policy looks up a policy by its path, for example ChannelWriters. A policy that
// does not exist is never satisfied.
func (b *Bundle) Policy(path string) policy.Evaluator {
	if p, ok := b.policies[path]; ok {
		return p
	}
	return metaPolicy{need: 1}
}

// Admits verifies an identity as of now, and that a policy names it. A long-lived reader is
// checked again and again: its certificate may expire, or a new configuration may revoke it.
func (b *Bundle) Admits(creator []byte, policyPath string) (*identity.Identity, error) {
	id, err := b.MSP.Deserialize(creator)
	if err != nil {
		return nil, err
	}
	return id, b.names(id, policyPath)
}

// AdmitsUndated is Admits without the certificate's period of validity: the answer is the same at any time.
func (b *Bundle) AdmitsUndated(creator []byte, policyPath string) (*identity.Identity, error) {
	id, err := b.MSP.DeserializeUndated(creator)
	if err != nil {
		return nil, err
	}
	return id, b.names(id, policyPath)
}

// names says why a policy does not name an identity.
func (b *Bundle) names(id *identity.Identity, policyPath string) error {
	if !b.Policy(policyPath).Evaluate([]*identity.Identity{id}) {
		return fmt.Errorf("%s of %s does not satisfy %s", id.Cert.Subject.CommonName, id.MSPID, policyPath)
	}
	return nil
}

// IsConfig reports whether a header type is a configuration's.
func IsConfig(header *commonpb.ChannelHeader) bool {
	return header.GetType() == int32(commonpb.HeaderType_CONFIG)
}

// IsConfigBlock reports whether a block holds a configuration.
func IsConfigBlock(block *commonpb.Block) bool {
	data := block.GetData().GetData()
	if len(data) != 1 {
		return false
	}
	msg, err := protoutil.ParseEnvelope(data[0]) // that of block 0 is read, too, which nobody has signed
	return err == nil && IsConfig(msg.Channel)
}

// FromBlock decodes a configuration block.
func FromBlock(block *commonpb.Block) (*Bundle, error) {
	if n := len(block.GetData().GetData()); n != 1 {
		return nil, fmt.Errorf("%w: block %d has %d transactions, a configuration block has one", ErrInvalid, block.GetHeader().GetNumber(), n)
	}
	msg, err := protoutil.ParseEnvelope(block.Data.Data[0])
	if err != nil {
		return nil, fmt.Errorf("%w: block %d: %w", ErrInvalid, block.GetHeader().GetNumber(), err)
	}
	return FromMessage(msg)
}

// FromMessage decodes a configuration transaction that is already taken apart.
func FromMessage(msg *protoutil.Message) (*Bundle, error) {
	if !IsConfig(msg.Channel) {
		return nil, fmt.Errorf("%w: header type %d is not CONFIG", ErrInvalid, msg.Channel.Type)
	}
	var cfg commonpb.ConfigEnvelope
	if err := protoutil.Unmarshal(msg.Data, &cfg); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return FromConfig(msg.Channel.ChannelId, cfg.Config)
}

// FromConfig decodes a channel's configuration.
func FromConfig(channelID string, cfg *commonpb.Config) (*Bundle, error) {
	b := &Bundle{
		ChannelID: channelID, Sequence: cfg.GetSequence(), Config: cfg,
		Orgs: map[string]Org{}, Chaincodes: map[string]*Chaincode{}, policies: map[string]policy.Evaluator{},
	}
	root := cfg.GetChannelGroup()
	var orgs []identity.OrgConfig
	for _, step := range []func() error{
		func() error { return compilePolicies(b.policies, "/Channel", root, 0) },
		func() error { return b.decodeOrderer(root.GetGroups()[ordererGroup], &orgs) },
		func() error { return b.decodeApplication(root.GetGroups()[applicationGroup], &orgs) },
		func() (err error) { b.MSP, err = identity.NewManager(orgs...); return err },
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("%w of channel %q: %w", ErrInvalid, channelID, err)
		}
	}
	return b, nil
}

func (b *Bundle) decodeOrderer(group *commonpb.ConfigGroup, orgs *[]identity.OrgConfig) error {
	var kind ordererpb.ConsensusType
	var size ordererpb.BatchSize
	var timeout ordererpb.BatchTimeout
	var mode streampb.OrderingMode
	if err := errors.Join(get(group, keyConsensusType, &kind), get(group, keyBatchSize, &size), get(group, keyBatchTimeout, &timeout)); err != nil {
		return err
	}
	if group.Values[keyMode] != nil { // a channel of Fabric's own tools has none
		if err := get(group, keyMode, &mode); err != nil {
			return err
		}
	}
	o := &b.Orderer
	o.ConsensusType = kind.Type
	o.MaxMessageCount, o.AbsoluteMaxBytes, o.PreferredMaxBytes = int(size.MaxMessageCount), int(size.AbsoluteMaxBytes), int(size.PreferredMaxBytes)
	if o.MaxMessageCount == 0 || o.AbsoluteMaxBytes == 0 || o.PreferredMaxBytes == 0 || o.PreferredMaxBytes > o.AbsoluteMaxBytes {
		return fmt.Errorf("BatchSize %s: values above 0, preferred_max_bytes at most absolute_max_bytes, are accepted", &size)
	}
	var err error
	if o.BatchTimeout, err = positiveDuration(keyBatchTimeout, timeout.Timeout); err != nil {
		return err
	}
	if mode.Mode == streampb.OrderingMode_STREAM {
		o.Mode, o.VirtualBlockTxs = Stream, int(mode.VirtualBlockTxs)
		if o.VirtualBlockInterval, err = positiveDuration(keyMode+" virtual_block_interval", mode.VirtualBlockInterval); err != nil {
			return err
		}
		if o.VirtualBlockTxs == 0 {
			return fmt.Errorf("%s virtual_block_txs: a number above 0 is accepted", keyMode)
		}
	}
	how, known := consensusTypes[o.ConsensusType]
	if !known {
		return unknownType(o.ConsensusType)
	}
	if most := MostBytes(o.ConsensusType); o.AbsoluteMaxBytes > most {
		return fmt.Errorf("%s absolute_max_bytes %d: at most %d is accepted with consensus type %s", keyBatchSize, o.AbsoluteMaxBytes, most, o.ConsensusType)
	}
	if err := how.decode(o, group, kind.Metadata); err != nil {
		return err
	}
	o.TLSRoots, o.Owners = x509.NewCertPool(), map[string]string{}
	for _, name := range sortedGroups(group) {
		sub := group.Groups[name]
		org, err := decodeOrg(name, sub, o.TLSRoots)
		if err != nil {
			return err
		}
		*orgs = append(*orgs, org)
		var endpoints commonpb.OrdererAddresses
		if sub.Values[keyEndpoints] != nil {
			if err := get(sub, keyEndpoints, &endpoints); err != nil {
				return err
			}
		}
		o.Addresses = append(o.Addresses, endpoints.Addresses...)
		for _, address := range endpoints.Addresses {
			o.Owners[address] = org.MSPID
		}
	}
	sort.Strings(o.Addresses)
	return nil
}

func (b *Bundle) decodeApplication(group *commonpb.ConfigGroup, orgs *[]identity.OrgConfig) error {
	for _, name := range sortedGroups(group) {
		sub := group.Groups[name]
		tls := x509.NewCertPool()
		cfg, err := decodeOrg(name, sub, tls)
		if err != nil {
			return err
		}
		*orgs = append(*orgs, cfg)
		org := Org{MSPID: cfg.MSPID, TLSRoots: tls}
		var peers peerpb.AnchorPeers
		if sub.Values[keyAnchorPeers] != nil {
			if err := get(sub, keyAnchorPeers, &peers); err != nil {
				return err
			}
		}
		for _, p := range peers.AnchorPeers {
			org.Peers = append(org.Peers, net.JoinHostPort(p.Host, strconv.Itoa(int(p.Port))))
		}
		b.Orgs[org.MSPID] = org
	}
	var definitions streampb.ChaincodeDefinitions
	if group.GetValues()[keyChaincodes] != nil {
		if err := get(group, keyChaincodes, &definitions); err != nil {
			return err
		}
	}
	for name, wire := range definitions.Chaincodes {
		cc, err := b.chaincode(wire)
		if err != nil {
			return fmt.Errorf("chaincode %q: %w", name, err)
		}
		if cc.Name != name || name == "" {
			return fmt.Errorf("chaincode %q calls itself %q", name, cc.Name)
		}
		b.Chaincodes[name] = cc
	}
	return nil
}

func (b *Bundle) chaincode(wire *streampb.ChaincodeDefinition) (*Chaincode, error) {
	cc := &Chaincode{Name: wire.GetName(), Version: wire.GetVersion(), Sequence: wire.GetSequence(), Rule: wire.GetEndorsementPolicy()}
	var pol peerpb.ApplicationPolicy
	if err := protoutil.Unmarshal(wire.GetEndorsementPolicy(), &pol); err != nil {
		return nil, err
	}
	switch kind := pol.Type.(type) {
	case *peerpb.ApplicationPolicy_SignaturePolicy:
		compiled, err := policy.Compile(kind.SignaturePolicy)
		if err != nil {
			return nil, err
		}
		cc.Policy = compiled
	case *peerpb.ApplicationPolicy_ChannelConfigPolicyReference:
		found, ok := b.policies[kind.ChannelConfigPolicyReference]
		if !ok {
			return nil, fmt.Errorf("endorsement policy %q does not exist", kind.ChannelConfigPolicyReference)
		}
		cc.Policy = found
	default:
		return nil, fmt.Errorf("no endorsement policy")
	}
	cc.Organisations = organisations(cc.Policy)
	cc.Layouts = sync.OnceValue(func() []policy.Layout { return layouts(cc.Policy) })
	if err := CheckChaincodeName(cc.Name); err != nil {
		return nil, err
	}
	return cc, checkChaincodeVersion(cc.Version)
}

func decodeOrg(name string, group *commonpb.ConfigGroup, tls *x509.CertPool) (identity.OrgConfig, error) {
	_, msp, err := mspOf(group)
	if err != nil {
		return identity.OrgConfig{}, fmt.Errorf("organisation %s: %w", name, err)
	}
	// To ignore a field that restricts an organisation's members would admit too many.
	if unknown := msp.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		field, _, _ := protowire.ConsumeTag(unknown)
		return identity.OrgConfig{}, fmt.Errorf("organisation %s: field %d of its MSP (7: organizational_unit_identifiers) is not accepted", name, field)
	}
	for _, text := range append(append([][]byte{}, msp.TlsRootCerts...), msp.TlsIntermediateCerts...) {
		if !tls.AppendCertsFromPEM(text) {
			return identity.OrgConfig{}, fmt.Errorf("organisation %s: a TLS root certificate cannot be read", name)
		}
	}
	cfg := identity.OrgConfig{
		MSPID: msp.Name, RootCerts: msp.RootCerts, IntermediateCerts: msp.IntermediateCerts, TLSRootCerts: msp.TlsRootCerts,
		RevocationLists: msp.RevocationList, Admins: msp.Admins,
	}
	if ous := msp.FabricNodeOus; ous.GetEnable() {
		cfg.OUs, cfg.OUIssuers = map[string]identity.Role{}, map[string][]byte{}
		for role, unit := range map[identity.Role]*msppb.FabricOUIdentifier{
			identity.Client: ous.ClientOuIdentifier, identity.Peer: ous.PeerOuIdentifier,
			identity.Admin: ous.AdminOuIdentifier, identity.Orderer: ous.OrdererOuIdentifier,
		} {
			if unit == nil {
				continue
			}
			// Nodes could differ in which of the two they take.
			if _, twice := cfg.OUs[unit.OrganizationalUnitIdentifier]; twice {
				return cfg, fmt.Errorf("organisation %s: the unit %q stands for two roles: one is accepted", name, unit.OrganizationalUnitIdentifier)
			}
			cfg.OUs[unit.OrganizationalUnitIdentifier] = role
			if len(unit.Certificate) > 0 {
				cfg.OUIssuers[unit.OrganizationalUnitIdentifier] = unit.Certificate
			}
		}
	}
	return cfg, nil
}
