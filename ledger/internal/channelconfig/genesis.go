package channelconfig

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// Genesis is what a new channel starts with. Fields that Orderer has too are what they are there.
type Genesis struct {
	// ChannelID is the channel's name.
	ChannelID     string
	ConsensusType string
	Consenters    []*etcdraftpb.Consenter
	// Identities are whose signatures count, of the same consenters, where some of them may lie.
	Identities []GenesisIdentity
	// RaftOptions are Raft's settings as they are on the wire.
	RaftOptions          *etcdraftpb.Options
	KafkaBrokers         []string
	Sequencer            string
	MaxMessageCount      uint32
	AbsoluteMaxBytes     uint32
	PreferredMaxBytes    uint32
	BatchTimeout         time.Duration
	Mode                 Mode
	VirtualBlockTxs      uint32
	VirtualBlockInterval time.Duration
	// OrdererOrgs are the organisations of the orderers, ApplicationOrgs those of peers and clients.
	OrdererOrgs     []GenesisOrg
	ApplicationOrgs []GenesisOrg
	Chaincodes      []GenesisChaincode
}

// GenesisIdentity is a consenter's certificate, PEM, with which it signs.
type GenesisIdentity struct {
	MSPID string
	Cert  []byte
}

// GenesisOrg is an organisation of a new channel. Certificates are PEM.
type GenesisOrg struct {
	MSPID     string
	RootCert  []byte
	TLSCert   []byte
	Endpoints []string // host:port of its orderers, or of its peers
	// IntermediateCerts and TLSIntermediateCerts are authorities below RootCert and TLSCert.
	IntermediateCerts, TLSIntermediateCerts [][]byte
}

// GenesisChaincode is a chaincode that a new channel starts with.
type GenesisChaincode struct {
	Name, Version string
	Policy        string // in the string form: OR('Org1MSP.peer',…)
}

// NewGenesis makes block 0 of a channel; it errs when FromBlock would.
func NewGenesis(g Genesis) (*commonpb.Block, error) {
	root, err := g.channelGroup()
	if err != nil {
		return nil, fmt.Errorf("genesis of channel %q: %w", g.ChannelID, err)
	}
	env, err := configEnvelope(g.ChannelID, &commonpb.ConfigEnvelope{Config: &commonpb.Config{ChannelGroup: root}})
	if err != nil {
		return nil, err
	}
	raw, err := proto.Marshal(env)
	if err != nil {
		return nil, err
	}
	// Block 0 has no signature: every node is given it by its operator.
	unsigned, err := proto.Marshal(&commonpb.Metadata{Value: mustMarshal(&commonpb.OrdererBlockMetadata{LastConfig: &commonpb.LastConfig{}})})
	if err != nil {
		return nil, err
	}
	slots := make([][]byte, protoutil.MetadataSlots)
	slots[commonpb.BlockMetadataIndex_SIGNATURES] = unsigned
	block := &commonpb.Block{
		Header:   &commonpb.BlockHeader{DataHash: protoutil.DataHash([][]byte{raw})},
		Data:     &commonpb.BlockData{Data: [][]byte{raw}},
		Metadata: &commonpb.BlockMetadata{Metadata: slots},
	}
	_, err = FromBlock(block)
	return block, err
}

func configEnvelope(channelID string, cfg *commonpb.ConfigEnvelope) (*commonpb.Envelope, error) {
	nonce, err := protoutil.NewNonce()
	if err != nil {
		return nil, err
	}
	header := &commonpb.ChannelHeader{Type: int32(commonpb.HeaderType_CONFIG), ChannelId: channelID, Timestamp: timestamppb.Now(), TxId: protoutil.TxID(nonce, nil)}
	payload, err := proto.Marshal(&commonpb.Payload{
		Header: &commonpb.Header{ChannelHeader: mustMarshal(header), SignatureHeader: mustMarshal(&commonpb.SignatureHeader{Nonce: nonce})},
		Data:   mustMarshal(cfg),
	})
	return &commonpb.Envelope{Payload: payload}, err
}

func (g *Genesis) channelGroup() (*commonpb.ConfigGroup, error) {
	orderer, err := g.ordererGroup()
	if err != nil {
		return nil, err
	}
	application, err := g.applicationGroup()
	if err != nil {
		return nil, err
	}
	root := newGroup()
	root.Groups[ordererGroup] = orderer
	root.Groups[applicationGroup] = application
	set(root, keyHashing, &commonpb.HashingAlgorithm{Name: "SHA256"})
	set(root, keyDataHashing, &commonpb.BlockDataHashingStructure{Width: 1<<32 - 1})
	setCapability(root, consensusTypes[g.ConsensusType].capability)
	setMetaPolicies(root)
	return root, nil
}

func (g *Genesis) ordererGroup() (*commonpb.ConfigGroup, error) {
	group := newGroup()
	how, known := consensusTypes[g.ConsensusType]
	if !known {
		return nil, unknownType(g.ConsensusType)
	}
	set(group, keyConsensusType, &ordererpb.ConsensusType{Type: g.ConsensusType, Metadata: how.encode(g, group)})
	set(group, keyBatchSize, &ordererpb.BatchSize{
		MaxMessageCount: g.MaxMessageCount, AbsoluteMaxBytes: g.AbsoluteMaxBytes, PreferredMaxBytes: g.PreferredMaxBytes,
	})
	set(group, keyBatchTimeout, &ordererpb.BatchTimeout{Timeout: g.BatchTimeout.String()})
	mode := &streampb.OrderingMode{VirtualBlockTxs: g.VirtualBlockTxs, VirtualBlockInterval: g.VirtualBlockInterval.String()}
	if g.Mode == Stream {
		mode.Mode = streampb.OrderingMode_STREAM
	}
	set(group, keyMode, mode)
	setCapability(group, capability)
	setMetaPolicies(group)
	setMeta(group, policyBlocks, policyWriters, commonpb.ImplicitMetaPolicy_ANY)
	if how.blocks != nil {
		setPolicy(group, policyBlocks, commonpb.Policy_SIGNATURE, how.blocks(g))
	}
	for _, org := range g.OrdererOrgs {
		sub, err := org.group(identity.Orderer)
		if err != nil {
			return nil, err
		}
		set(sub, keyEndpoints, &commonpb.OrdererAddresses{Addresses: org.Endpoints})
		group.Groups[org.MSPID] = sub
	}
	return group, nil
}

func (g *Genesis) applicationGroup() (*commonpb.ConfigGroup, error) {
	group := newGroup()
	for _, org := range g.ApplicationOrgs {
		sub, err := org.application()
		if err != nil {
			return nil, err
		}
		group.Groups[org.MSPID] = sub
	}
	definitions := &streampb.ChaincodeDefinitions{Chaincodes: map[string]*streampb.ChaincodeDefinition{}}
	for _, cc := range g.Chaincodes {
		parsed, err := policy.Parse(cc.Policy)
		if err != nil {
			return nil, fmt.Errorf("chaincode %s: %w", cc.Name, err)
		}
		definitions.Chaincodes[cc.Name] = &streampb.ChaincodeDefinition{
			Name: cc.Name, Version: cc.Version, Sequence: 1,
			EndorsementPolicy: mustMarshal(&peerpb.ApplicationPolicy{Type: &peerpb.ApplicationPolicy_SignaturePolicy{SignaturePolicy: parsed}}),
		}
	}
	set(group, keyChaincodes, definitions)
	setCapability(group, capability)
	setMetaPolicies(group)
	setMeta(group, policyEndorsement, policyEndorsement, commonpb.ImplicitMetaPolicy_MAJORITY)
	return group, nil
}

// anchorPeers lists an organisation's peers as the configuration has them.
func anchorPeers(mspID string, endpoints []string) (*peerpb.AnchorPeers, error) {
	peers := &peerpb.AnchorPeers{}
	for _, endpoint := range endpoints {
		host, port, err := net.SplitHostPort(endpoint)
		number, convErr := strconv.ParseUint(port, 10, 16)
		if err != nil || convErr != nil {
			return nil, fmt.Errorf("%s: peer address %q is not host:port", mspID, endpoint)
		}
		peers.AnchorPeers = append(peers.AnchorPeers, &peerpb.AnchorPeer{Host: host, Port: int32(number)})
	}
	return peers, nil
}

// group is the organisation's part of the tree; writers are the roles that may write, besides its admins.
func (o *GenesisOrg) group(writers ...identity.Role) (*commonpb.ConfigGroup, error) {
	units := func(name string) *msppb.FabricOUIdentifier {
		return &msppb.FabricOUIdentifier{OrganizationalUnitIdentifier: name}
	}
	msp := &msppb.FabricMSPConfig{
		Name: o.MSPID, RootCerts: [][]byte{o.RootCert}, TlsRootCerts: [][]byte{o.TLSCert},
		IntermediateCerts: o.IntermediateCerts, TlsIntermediateCerts: o.TLSIntermediateCerts,
		CryptoConfig: &msppb.FabricCryptoConfig{SignatureHashFamily: "SHA2", IdentityIdentifierHashFunction: "SHA256"},
		FabricNodeOus: &msppb.FabricNodeOUs{
			Enable: true, ClientOuIdentifier: units("client"), PeerOuIdentifier: units("peer"),
			AdminOuIdentifier: units("admin"), OrdererOuIdentifier: units("orderer"),
		},
	}
	group := newGroup()
	set(group, keyMSP, &msppb.MSPConfig{Config: mustMarshal(msp)})
	text := fmt.Sprintf("OR('%s.admin'", o.MSPID)
	for _, role := range writers {
		text += fmt.Sprintf(",'%s.%s'", o.MSPID, role)
	}
	for name, rule := range map[string]string{
		policyReaders:     fmt.Sprintf("OR('%s.member')", o.MSPID),
		policyWriters:     text + ")",
		policyAdmins:      fmt.Sprintf("OR('%s.admin')", o.MSPID),
		policyEndorsement: fmt.Sprintf("OR('%s.peer')", o.MSPID),
	} {
		parsed, err := policy.Parse(rule)
		if err != nil {
			return nil, err
		}
		setPolicy(group, name, commonpb.Policy_SIGNATURE, parsed)
	}
	return group, nil
}

func newGroup() *commonpb.ConfigGroup {
	return &commonpb.ConfigGroup{
		Groups: map[string]*commonpb.ConfigGroup{}, Values: map[string]*commonpb.ConfigValue{},
		Policies: map[string]*commonpb.ConfigPolicy{}, ModPolicy: policyAdmins,
	}
}

// set gives a group a value. Who may change one that is there stays, as in setPolicy: the group's admins where nobody was
// named.
func set(group *commonpb.ConfigGroup, key string, value proto.Message) {
	modPolicy := cmp.Or(group.Values[key].GetModPolicy(), policyAdmins)
	group.Values[key] = &commonpb.ConfigValue{Value: mustMarshal(value), ModPolicy: modPolicy}
}

func setPolicy(group *commonpb.ConfigGroup, name string, kind commonpb.Policy_PolicyType, value proto.Message) {
	group.Policies[name] = &commonpb.ConfigPolicy{
		Policy:    &commonpb.Policy{Type: int32(kind), Value: mustMarshal(value)},
		ModPolicy: cmp.Or(group.Policies[name].GetModPolicy(), policyAdmins),
	}
}

func setMeta(group *commonpb.ConfigGroup, name, sub string, rule commonpb.ImplicitMetaPolicy_Rule) {
	setPolicy(group, name, commonpb.Policy_IMPLICIT_META, &commonpb.ImplicitMetaPolicy{SubPolicy: sub, Rule: rule})
}

func setMetaPolicies(group *commonpb.ConfigGroup) {
	setMeta(group, policyReaders, policyReaders, commonpb.ImplicitMetaPolicy_ANY)
	setMeta(group, policyWriters, policyWriters, commonpb.ImplicitMetaPolicy_ANY)
	setMeta(group, policyAdmins, policyAdmins, commonpb.ImplicitMetaPolicy_MAJORITY)
}

func setCapability(group *commonpb.ConfigGroup, name string) {
	set(group, keyCapabilities, &commonpb.Capabilities{Capabilities: map[string]*commonpb.Capability{name: {}}})
}

// mustMarshal is for messages that we made ourselves: those always marshal.
// Maps go out in key order, so that one configuration has one form.
func mustMarshal(m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}
