package channelconfig

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

type world map[string]*ca.Authority

func newWorld(t testing.TB) (world, Genesis) {
	t.Helper()
	w := world{}
	org := func(msp string, endpoints ...string) GenesisOrg {
		a, err := ca.New("ca", msp)
		require.NoError(t, err)
		w[msp] = a
		return GenesisOrg{MSPID: msp, RootCert: a.CertPEM(), TLSCert: a.CertPEM(), Endpoints: endpoints}
	}
	return w, Genesis{
		ChannelID: "mychannel", ConsensusType: Raft,
		Consenters:      []*etcdraftpb.Consenter{{Host: "127.0.0.1", Port: 7050}},
		RaftOptions:     &etcdraftpb.Options{TickInterval: "100ms", ElectionTick: 10, HeartbeatTick: 1, SnapshotIntervalSize: 1 << 20},
		MaxMessageCount: 500, AbsoluteMaxBytes: 10 << 20, PreferredMaxBytes: 2 << 20, BatchTimeout: 2 * time.Second,
		Mode: Stream, VirtualBlockTxs: 100, VirtualBlockInterval: 100 * time.Millisecond,
		OrdererOrgs:     []GenesisOrg{org("OrdererMSP", "127.0.0.1:7050", "127.0.0.1:7049")},
		ApplicationOrgs: []GenesisOrg{org("Org1MSP", "127.0.0.1:7051", "127.0.0.1:8051"), org("Org2MSP", "127.0.0.1:9051")},
		Chaincodes:      []GenesisChaincode{{Name: "kv", Version: "1.0", Policy: "OR('Org1MSP.peer','Org2MSP.peer')"}},
	}
}

func (w world) identity(t testing.TB, b *Bundle, msp, unit string) *identity.Identity {
	t.Helper()
	cert, key, err := w[msp].Issue(ca.Request{CommonName: unit, Unit: unit})
	require.NoError(t, err)
	s, err := identity.NewSigner(msp, cert, key)
	require.NoError(t, err)
	id, err := b.MSP.Deserialize(s.Serialized())
	require.NoError(t, err)
	return id
}

func TestGenesisRoundTrip(t *testing.T) {
	_, g := newWorld(t)
	block, err := NewGenesis(g)
	require.NoError(t, err)
	assert.Equal(t, protoutil.DataHash(block.Data.Data), block.Header.DataHash)
	raw, err := proto.Marshal(block)
	require.NoError(t, err)
	var again commonpb.Block
	require.NoError(t, proto.Unmarshal(raw, &again))
	b, err := FromBlock(&again)
	require.NoError(t, err)
	assert.Equal(t, "mychannel", b.ChannelID)
	assert.Equal(t, Raft, b.Orderer.ConsensusType)
	assert.Equal(t, RaftOptions{TickInterval: 100 * time.Millisecond, ElectionTick: 10, HeartbeatTick: 1, SnapshotInterval: 1 << 20}, b.Orderer.Raft)
	assert.Equal(t, Stream, b.Orderer.Mode)
	assert.Equal(t, 100, b.Orderer.VirtualBlockTxs)
	assert.Equal(t, []string{"127.0.0.1:7049", "127.0.0.1:7050"}, b.Orderer.Addresses)
	assert.Equal(t, []string{"127.0.0.1:7051", "127.0.0.1:8051"}, b.Orgs["Org1MSP"].Peers)
	require.Contains(t, b.Chaincodes, "kv")
	assert.Len(t, b.Chaincodes["kv"].Layouts(), 2)
	assert.Equal(t, []string{"Org1MSP", "Org2MSP"}, b.Chaincodes["kv"].Organisations)
}

func TestPoliciesOfTheChannel(t *testing.T) {
	w, g := newWorld(t)
	block, err := NewGenesis(g)
	require.NoError(t, err)
	b, err := FromBlock(block)
	require.NoError(t, err)
	who := func(msp, unit string) *identity.Identity { return w.identity(t, b, msp, unit) }
	client1, peer1, peer2 := who("Org1MSP", "client"), who("Org1MSP", "peer"), who("Org2MSP", "peer")
	admin1, admin2, orderer := who("Org1MSP", "admin"), who("Org2MSP", "admin"), who("OrdererMSP", "orderer")
	for _, c := range []struct {
		path string
		ids  []*identity.Identity
		want bool
	}{
		{ChannelWriters, []*identity.Identity{client1}, true},
		{ChannelWriters, []*identity.Identity{orderer}, true},
		{ChannelWriters, []*identity.Identity{who("OrdererMSP", "client")}, false},
		{ChannelWriters, nil, false},
		{ChannelReaders, []*identity.Identity{peer2}, true},
		{BlockValidation, []*identity.Identity{orderer}, true},
		{BlockValidation, []*identity.Identity{peer1}, false},
		{BlockValidation, []*identity.Identity{client1}, false},
		{Endorsement, []*identity.Identity{peer1}, false}, // a majority of two is two
		{Endorsement, []*identity.Identity{peer1, peer2}, true},
		{ChannelAdmins, []*identity.Identity{admin1, admin2}, false},
		{ChannelAdmins, []*identity.Identity{admin1, admin2, who("OrdererMSP", "admin")}, true},
		{"/Channel/Application/Org1MSP/Admins", []*identity.Identity{admin1}, true},
		{"/Channel/Nowhere", []*identity.Identity{admin1, peer1, orderer}, false},
	} {
		assert.Equal(t, c.want, b.Policy(c.path).Evaluate(c.ids), "%s %d", c.path, len(c.ids))
	}
}

func TestChaincodeByPolicyReference(t *testing.T) {
	_, g := newWorld(t)
	root, err := g.channelGroup()
	require.NoError(t, err)
	reference := &peerpb.ApplicationPolicy{Type: &peerpb.ApplicationPolicy_ChannelConfigPolicyReference{ChannelConfigPolicyReference: Endorsement}}
	set(root.Groups[applicationGroup], keyChaincodes, &streampb.ChaincodeDefinitions{Chaincodes: map[string]*streampb.ChaincodeDefinition{
		"kv": {Name: "kv", Version: "1", Sequence: 1, EndorsementPolicy: mustMarshal(reference)},
	}})
	b, err := FromConfig("c", &commonpb.Config{ChannelGroup: root})
	require.NoError(t, err)
	assert.Equal(t, []policy.Layout{{{MSPID: "Org1MSP", Role: identity.Peer}: 1, {MSPID: "Org2MSP", Role: identity.Peer}: 1}}, b.Chaincodes["kv"].Layouts())
	assert.Equal(t, []string{"Org1MSP", "Org2MSP"}, b.Chaincodes["kv"].Organisations)
}

func TestAChannelOfFabricsToolsIsInBlockMode(t *testing.T) {
	_, g := newWorld(t)
	root, err := g.channelGroup()
	require.NoError(t, err)
	delete(root.Groups[ordererGroup].Values, keyMode)
	delete(root.Groups[applicationGroup].Values, keyChaincodes)
	b, err := FromConfig("c", &commonpb.Config{ChannelGroup: root})
	require.NoError(t, err)
	assert.Equal(t, Block, b.Orderer.Mode)
	assert.Empty(t, b.Chaincodes)
}

// TestAnOrganisationOfOrderersMayHavePeers, as long as both parts of the configuration say the same of it.
func TestAnOrganisationOfOrderersMayHavePeers(t *testing.T) {
	w, g := newWorld(t)
	root, err := g.channelGroup()
	require.NoError(t, err)
	apps := root.Groups[applicationGroup]
	apps.Groups["OrdererMSP"] = proto.Clone(apps.Groups["Org1MSP"]).(*commonpb.ConfigGroup)
	apps.Groups["OrdererMSP"].Values[keyMSP] = root.Groups[ordererGroup].Groups["OrdererMSP"].Values[keyMSP]
	b, err := FromConfig("c", &commonpb.Config{ChannelGroup: root})
	require.NoError(t, err)
	assert.Contains(t, b.Orgs, "OrdererMSP")
	assert.True(t, b.Policy(BlockValidation).Evaluate([]*identity.Identity{w.identity(t, b, "OrdererMSP", "orderer")}))
	editMSP(t, apps.Groups["OrdererMSP"], func(msp *msppb.FabricMSPConfig) { msp.FabricNodeOus = nil })
	_, err = FromConfig("c", &commonpb.Config{ChannelGroup: root})
	require.ErrorContains(t, err, "organisation OrdererMSP: two different versions of its MSP")
}

// TestAnMSPWithoutUnitsNamesItsAdmins, by their certificates.
func TestAnMSPWithoutUnitsNamesItsAdmins(t *testing.T) {
	w, g := newWorld(t)
	root, err := g.channelGroup()
	require.NoError(t, err)
	cert, key, err := w["Org1MSP"].Issue(ca.Request{CommonName: "ann"})
	require.NoError(t, err)
	ann, err := identity.NewSigner("Org1MSP", cert, key)
	require.NoError(t, err)
	changeMSP(t, func(msp *msppb.FabricMSPConfig) { msp.FabricNodeOus, msp.Admins = nil, [][]byte{cert} })(root)
	b, err := FromConfig("c", &commonpb.Config{ChannelGroup: root})
	require.NoError(t, err)
	_, err = b.Admits(ann.Serialized(), "/Channel/Application/Org1MSP/Admins")
	require.NoError(t, err)
	other := w.identity(t, b, "Org1MSP", "")
	assert.False(t, b.Policy("/Channel/Application/Org1MSP/Admins").Evaluate([]*identity.Identity{other}))
}

// changeMSP changes what a configuration says of Org1MSP.
func changeMSP(t *testing.T, change func(*msppb.FabricMSPConfig)) func(*commonpb.ConfigGroup) {
	return func(root *commonpb.ConfigGroup) { editMSP(t, root.Groups[applicationGroup].Groups["Org1MSP"], change) }
}

func editMSP(t *testing.T, org *commonpb.ConfigGroup, change func(*msppb.FabricMSPConfig)) {
	t.Helper()
	var wire msppb.MSPConfig
	var msp msppb.FabricMSPConfig
	require.NoError(t, get(org, keyMSP, &wire))
	require.NoError(t, proto.Unmarshal(wire.Config, &msp))
	change(&msp)
	set(org, keyMSP, &msppb.MSPConfig{Config: mustMarshal(&msp)})
}

// TestTransactionsMayBeAsLargeAsFabricsToolsLetThem: the configuration of its test network has 99 MB.
func TestTransactionsMayBeAsLargeAsFabricsToolsLetThem(t *testing.T) {
	for kind, most := range map[string]uint32{Raft: 252 << 20, Kafka: 100<<20 - 64<<10} {
		for _, bytes := range []uint32{10 << 20, 99 << 20, most} {
			_, g := newWorld(t)
			g.ConsensusType, g.KafkaBrokers, g.AbsoluteMaxBytes = kind, []string{"127.0.0.1:9092"}, bytes
			block, err := NewGenesis(g)
			require.NoError(t, err)
			b, err := FromBlock(block)
			require.NoError(t, err)
			assert.EqualValues(t, bytes, b.Orderer.AbsoluteMaxBytes)
		}
	}
}

func TestInvalidConfigurations(t *testing.T) {
	_, g := newWorld(t)
	for want, change := range map[string]func(root *commonpb.ConfigGroup){
		"BatchSize is missing":     func(r *commonpb.ConfigGroup) { delete(r.Groups[ordererGroup].Values, keyBatchSize) },
		"ConsensusType is missing": func(r *commonpb.ConfigGroup) { delete(r.Groups, ordererGroup) },
		"MSP is missing":           func(r *commonpb.ConfigGroup) { delete(r.Groups[applicationGroup].Groups["Org1MSP"].Values, keyMSP) },
		"a duration above 0": func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyBatchTimeout, &ordererpb.BatchTimeout{Timeout: "-2s"})
		},
		`consensus type "pbft"`: func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyConsensusType, &ordererpb.ConsensusType{Type: "pbft"})
		},
		"value KafkaBrokers is missing": func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyConsensusType, &ordererpb.ConsensusType{Type: Kafka})
		},
		`sequencer at "nowhere"`: func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyConsensusType, &ordererpb.ConsensusType{Type: Sequencer, Metadata: mustMarshal(&sequencerpb.Place{Address: "nowhere"})})
		},
		`KafkaBrokers: at least one`: func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyConsensusType, &ordererpb.ConsensusType{Type: Kafka})
			set(r.Groups[ordererGroup], keyKafkaBrokers, &ordererpb.KafkaBrokers{})
		},
		`KafkaBrokers "nowhere"`: func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyConsensusType, &ordererpb.ConsensusType{Type: Kafka})
			set(r.Groups[ordererGroup], keyKafkaBrokers, &ordererpb.KafkaBrokers{Brokers: []string{"nowhere"}})
		},
		"values above 0": func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyBatchSize, &ordererpb.BatchSize{MaxMessageCount: 1})
		},
		"BatchSize absolute_max_bytes 264241153: at most 264241152 is accepted with consensus type etcdraft": func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyBatchSize, &ordererpb.BatchSize{MaxMessageCount: 1, PreferredMaxBytes: 1, AbsoluteMaxBytes: 252<<20 + 1})
		},
		"BatchSize absolute_max_bytes 104792065: at most 104792064 is accepted with consensus type kafka": func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyConsensusType, &ordererpb.ConsensusType{Type: Kafka})
			set(r.Groups[ordererGroup], keyBatchSize, &ordererpb.BatchSize{MaxMessageCount: 1, PreferredMaxBytes: 1, AbsoluteMaxBytes: 100<<20 - 64<<10 + 1})
		},
		"virtual_block_txs": func(r *commonpb.ConfigGroup) {
			set(r.Groups[ordererGroup], keyMode, &streampb.OrderingMode{Mode: streampb.OrderingMode_STREAM, VirtualBlockInterval: "1s"})
		},
		"unknown type 9": func(r *commonpb.ConfigGroup) { r.Policies[policyReaders].Policy.Type = 9 },
		"levels of groups": func(r *commonpb.ConfigGroup) {
			for range maxGroupDepth + 1 {
				next := newGroup()
				r.Groups["x"] = next
				r = next
			}
		},
		`the unit "peer" stands for two roles`: changeMSP(t, func(msp *msppb.FabricMSPConfig) {
			msp.FabricNodeOus.AdminOuIdentifier = msp.FabricNodeOus.PeerOuIdentifier
		}),
		`authority of unit "admin": no PEM certificate found`: changeMSP(t, func(msp *msppb.FabricMSPConfig) {
			msp.FabricNodeOus.AdminOuIdentifier.Certificate = []byte("x")
		}),
		"field 7 of its MSP": changeMSP(t, func(msp *msppb.FabricMSPConfig) {
			msp.ProtoReflect().SetUnknown([]byte{7<<3 | 2, 0})
		}),
		"no endorsement policy": func(r *commonpb.ConfigGroup) {
			set(r.Groups[applicationGroup], keyChaincodes, &streampb.ChaincodeDefinitions{Chaincodes: map[string]*streampb.ChaincodeDefinition{"x": {Name: "x"}}})
		},
	} {
		root, err := g.channelGroup()
		require.NoError(t, err)
		change(root)
		_, err = FromConfig("c", &commonpb.Config{ChannelGroup: root})
		require.ErrorIs(t, err, ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	_, err := FromBlock(&commonpb.Block{})
	require.ErrorIs(t, err, ErrInvalid)
	for name, want := range map[string]string{
		"qscc": "the name of a system chaincode", "_lifecycle": "letters and digits", "a--b": "letters and digits", "a/b": "letters and digits", "": "letters and digits",
	} {
		require.ErrorContains(t, CheckChaincodeName(name), want, name)
	}
	require.NoError(t, CheckChaincodeName("asset-transfer_2"))
	for _, version := range []string{"", "1:0", "1 0"} {
		require.ErrorContains(t, checkChaincodeVersion(version), "letters, digits and _.+- are accepted", version)
	}
	_, err = FromBlock(&commonpb.Block{Data: &commonpb.BlockData{Data: [][]byte{{0xff}}}})
	require.ErrorIs(t, err, ErrInvalid)
	g.Chaincodes[0].Policy = "EITHER('x')"
	_, err = NewGenesis(g)
	require.ErrorContains(t, err, "chaincode kv")
}
