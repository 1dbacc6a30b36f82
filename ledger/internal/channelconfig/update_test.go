package channelconfig

import (
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// channel is a channel whose configuration is changed.
type channel struct {
	world
	t       *testing.T
	bundle  *Bundle
	signers map[string]*identity.SigningIdentity
}

func newChannel(t *testing.T) *channel {
	w, g := newWorld(t)
	block, err := NewGenesis(g)
	require.NoError(t, err)
	b, err := FromBlock(block)
	require.NoError(t, err)
	return &channel{world: w, t: t, bundle: b, signers: map[string]*identity.SigningIdentity{}}
}

func (c *channel) signer(msp, unit string) *identity.SigningIdentity {
	if s := c.signers[msp+unit]; s != nil {
		return s
	}
	cert, key, err := c.world[msp].Issue(ca.Request{CommonName: unit, Unit: unit})
	require.NoError(c.t, err)
	s, err := identity.NewSigner(msp, cert, key)
	require.NoError(c.t, err)
	c.signers[msp+unit] = s
	return s
}

func (c *channel) admins(msps ...string) (out []*identity.SigningIdentity) {
	for _, msp := range msps {
		out = append(out, c.signer(msp, "admin"))
	}
	return out
}

// wrap makes the envelope that a client sends.
func (c *channel) wrap(update *commonpb.ConfigUpdateEnvelope, signers ...*identity.SigningIdentity) *protoutil.Message {
	for _, s := range signers {
		require.NoError(c.t, SignUpdate(update, s))
	}
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG_UPDATE, "mychannel", c.signer("Org1MSP", "admin"), nil, mustMarshal(update))
	require.NoError(c.t, err)
	msg, err := protoutil.OpenEnvelope(env)
	require.NoError(c.t, err)
	return msg
}

// update is an update by a patch.
func (c *channel) update(p Patch, signers ...*identity.SigningIdentity) *protoutil.Message {
	to, err := p.Apply(c.bundle.Config)
	require.NoError(c.t, err)
	update, err := NewUpdate("mychannel", c.bundle.Config, to)
	require.NoError(c.t, err)
	return c.wrap(update, signers...)
}

// become brings an update about.
func (c *channel) become(update *protoutil.Message) {
	c.t.Helper()
	config, err := c.bundle.Updated(update, time.Now())
	require.NoError(c.t, err)
	c.bundle, err = c.bundle.Next(c.transaction(config, update))
	require.NoError(c.t, err)
}

func (c *channel) transaction(config *commonpb.Config, update *protoutil.Message) *protoutil.Message {
	env, err := NewConfigTransaction(config, update.Envelope, "mychannel", c.signer("OrdererMSP", "orderer"))
	require.NoError(c.t, err)
	msg, err := protoutil.OpenEnvelope(env)
	require.NoError(c.t, err)
	return msg
}

var upgrade = Patch{Chaincodes: map[string]ChaincodePatch{"kv": {Version: "2.0", Policy: "AND('Org1MSP.peer','Org2MSP.peer')"}}}

func TestAChaincodeIsUpgraded(t *testing.T) {
	c := newChannel(t)
	c.become(c.update(upgrade, c.admins("Org1MSP", "Org2MSP")...))
	assert.EqualValues(t, 1, c.bundle.Sequence)
	kv := c.bundle.Chaincodes["kv"]
	assert.Equal(t, "2.0", kv.Version)
	assert.EqualValues(t, 2, kv.Sequence)
	assert.Len(t, kv.Layouts(), 1)
	c.become(c.update(Patch{Chaincodes: map[string]ChaincodePatch{
		"kv": {Version: "3.0"}, "new": {Version: "1.0", Policy: "OR('Org1MSP.peer')"},
	}}, c.admins("Org1MSP", "Org2MSP")...))
	assert.Len(t, c.bundle.Chaincodes["kv"].Layouts(), 1, "what a patch does not mention stays")
	assert.EqualValues(t, 1, c.bundle.Chaincodes["new"].Sequence)
	for want, change := range map[string]ChaincodePatch{
		"a new version, a new policy, or both are accepted":     {},
		"the policy names Org9MSP: Org1MSP, Org2MSP are accept": {Policy: "OR('Org9MSP.peer')"},
	} {
		_, err := (&Patch{Chaincodes: map[string]ChaincodePatch{"kv": change}}).Apply(c.bundle.Config)
		assert.ErrorContains(t, err, want)
	}
}

func TestAnOrganisationIsAdded(t *testing.T) {
	c := newChannel(t)
	a, err := ca.New("ca", "Org3MSP")
	require.NoError(t, err)
	c.world["Org3MSP"] = a
	stranger := c.signer("Org3MSP", "client")
	_, err = c.bundle.MSP.Deserialize(stranger.Serialized())
	require.ErrorIs(t, err, identity.ErrUnknownMSP)
	c.become(c.update(Patch{Organisations: []OrganisationPatch{
		{MSPID: "Org3MSP", RootCert: string(a.CertPEM()), TLSCert: string(a.CertPEM()), Peers: []string{"127.0.0.1:7"}},
	}}, c.admins("Org1MSP", "Org2MSP")...))
	id, err := c.bundle.MSP.Deserialize(stranger.Serialized())
	require.NoError(t, err)
	assert.True(t, c.bundle.Policy(ChannelWriters).Evaluate([]*identity.Identity{id}))
	assert.Equal(t, []string{"127.0.0.1:7"}, c.bundle.Orgs["Org3MSP"].Peers)
	// Of three organisations two are the majority, whichever.
	c.become(c.update(upgrade, c.admins("Org1MSP", "Org3MSP")...))
	// An organisation changes its own part alone.
	c.become(c.update(Patch{Policies: map[string]string{"/Channel/Application/Org3MSP/Writers": "OR('Org3MSP.admin')"}}, c.admins("Org3MSP")...))
	id, err = c.bundle.MSP.Deserialize(stranger.Serialized())
	require.NoError(t, err)
	assert.False(t, c.bundle.Policy(ChannelWriters).Evaluate([]*identity.Identity{id}))
}

func TestPoliciesAndBatchesAreChanged(t *testing.T) {
	c := newChannel(t)
	c.become(c.update(Patch{Policies: map[string]string{"/Channel/Application/Admins": "ANY Admins"}}, c.admins("Org1MSP", "Org2MSP")...))
	c.become(c.update(upgrade, c.admins("Org2MSP")...))
	c.become(c.update(Patch{BatchTimeout: time.Minute, MaxMessageCount: 7}, c.admins("OrdererMSP")...))
	assert.Equal(t, time.Minute, c.bundle.Orderer.BatchTimeout)
	assert.Equal(t, 7, c.bundle.Orderer.MaxMessageCount)
	assert.EqualValues(t, 3, c.bundle.Sequence)
}

func TestUpdatesThatAreRefused(t *testing.T) {
	c := newChannel(t)
	first := c.bundle
	both := c.admins("Org1MSP", "Org2MSP")
	foreign := newChannel(t)
	edit := func(change func(*commonpb.ConfigUpdate)) *protoutil.Message {
		to, err := upgrade.Apply(c.bundle.Config)
		require.NoError(t, err)
		env, err := NewUpdate("mychannel", c.bundle.Config, to)
		require.NoError(t, err)
		var update commonpb.ConfigUpdate
		require.NoError(t, proto.Unmarshal(env.ConfigUpdate, &update))
		change(&update)
		env.ConfigUpdate = mustMarshal(&update)
		return c.wrap(env, both...)
	}
	chaincodes := func(u *commonpb.ConfigUpdate) *commonpb.ConfigValue {
		return u.WriteSet.Groups["Application"].Values["Chaincodes"]
	}
	read := func(u *commonpb.ConfigUpdate) *commonpb.ConfigGroup { return u.ReadSet.Groups["Application"] }
	tampered := c.update(upgrade, both...)
	var opened commonpb.ConfigUpdateEnvelope
	require.NoError(t, proto.Unmarshal(tampered.Data, &opened))
	opened.Signatures[0].Signature[9]++
	tampered.Data = mustMarshal(&opened)
	consenters := Patch{}
	moved, err := consenters.Apply(c.bundle.Config)
	require.NoError(t, err)
	set(moved.ChannelGroup.Groups["Orderer"], keyConsensusType, &ordererpb.ConsensusType{Type: Raft, Metadata: mustMarshal(&etcdraftpb.ConfigMetadata{
		Consenters: []*etcdraftpb.Consenter{{Host: "elsewhere", Port: 1}},
		Options:    &etcdraftpb.Options{TickInterval: "100ms", ElectionTick: 10, HeartbeatTick: 1, SnapshotIntervalSize: 1 << 20},
	})})
	movedUpdate, err := NewUpdate("mychannel", c.bundle.Config, moved)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		update *protoutil.Message
		want   string
	}{
		"nobody signs":         {c.update(upgrade), "0 valid signature(s) do not satisfy /Channel/Application/Admins"},
		"one of two signs":     {c.update(upgrade, both[0]), "1 valid signature(s) do not satisfy"},
		"one signs twice":      {c.update(upgrade, both[0], both[0]), "do not satisfy"},
		"clients sign":         {c.update(upgrade, c.signer("Org1MSP", "client"), c.signer("Org2MSP", "client")), "do not satisfy"},
		"strangers sign":       {c.update(upgrade, foreign.admins("Org1MSP", "Org2MSP")...), "0 valid signature(s)"},
		"a signature is wrong": {tampered, "1 valid signature(s)"},
		"the orderers' part":   {c.update(Patch{MaxMessageCount: 7}, both...), "do not satisfy /Channel/Orderer/Admins"},
		"another channel":      {edit(func(u *commonpb.ConfigUpdate) { u.ChannelId = "other" }), `an update of channel "other"`},
		"nothing":              {edit(func(u *commonpb.ConfigUpdate) { u.WriteSet = u.ReadSet }), "changes nothing"},
		"a version skipped":    {edit(func(u *commonpb.ConfigUpdate) { chaincodes(u).Version = 2 }), "is at version 0, the update sets version 2"},
		"too many sign":        {c.update(upgrade, slices.Repeat(both, 33)...), "0 valid signature(s) do not satisfy"},
		"an old value was read": {edit(func(u *commonpb.ConfigUpdate) {
			read(u).Values = map[string]*commonpb.ConfigValue{"Chaincodes": {Version: 9}}
		}), "made from version 9 of /Channel/Application/Chaincodes"},
		"an old policy was read": {edit(func(u *commonpb.ConfigUpdate) {
			read(u).Policies = map[string]*commonpb.ConfigPolicy{"Admins": {Version: 9}}
		}), "made from version 9 of /Channel/Application/Admins"},
		"no such value was read": {edit(func(u *commonpb.ConfigUpdate) {
			read(u).Values = map[string]*commonpb.ConfigValue{"Other": {}}
		}), "/Channel/Application/Other, which does not exist"},
		"no such policy was read": {edit(func(u *commonpb.ConfigUpdate) {
			read(u).Policies = map[string]*commonpb.ConfigPolicy{"Other": {}}
		}), "/Channel/Application/Other, which does not exist"},
		"no such group was read": {edit(func(u *commonpb.ConfigUpdate) {
			read(u).Groups = map[string]*commonpb.ConfigGroup{"NoMSP": {}}
		}), "/Channel/Application/NoMSP, which does not exist"},
		"read what is not": {edit(func(u *commonpb.ConfigUpdate) { u.ReadSet.Version = 3 }), "made from version 3 of /Channel"},
		"a member unannounced": {edit(func(u *commonpb.ConfigUpdate) {
			u.WriteSet.Groups["Application"].Values["Other"] = &commonpb.ConfigValue{Value: []byte("x")}
		}), "/Channel/Application/Other is new"},
		"an unreadable value": {edit(func(u *commonpb.ConfigUpdate) { chaincodes(u).Value = []byte{0xff} }), "Chaincodes"},
		"other consenters":    {c.wrap(movedUpdate, c.admins("OrdererMSP")...), "one at a time is accepted"},
	} {
		_, err := c.bundle.Updated(test.update, time.Now())
		require.ErrorIs(t, err, ErrInvalid, name)
		assert.ErrorContains(t, err, test.want, name)
	}
	old := c.update(upgrade, both...)
	c.become(old)
	_, err = c.bundle.Updated(old, time.Now())
	assert.ErrorContains(t, err, "changes nothing", "an update counts once")
	late := c.bundle
	c.bundle = first
	competing := c.update(Patch{Chaincodes: map[string]ChaincodePatch{"kv": {Version: "9.0"}}}, both...)
	_, err = late.Updated(competing, time.Now())
	assert.ErrorContains(t, err, "which exists and says something else", "of two updates of one version the first counts")
}

// TestNextTrustsNobody: what an orderer made of an update is checked, too.
func TestNextTrustsNobody(t *testing.T) {
	c := newChannel(t)
	update := c.update(upgrade, c.admins("Org1MSP", "Org2MSP")...)
	config, err := c.bundle.Updated(update, time.Now())
	require.NoError(t, err)
	other := proto.Clone(config).(*commonpb.Config)
	other.ChannelGroup.Groups["Application"].ModPolicy = "Readers"
	_, err = c.bundle.Next(c.transaction(other, update))
	assert.ErrorContains(t, err, "is not what its update makes of 0")
	late := proto.Clone(config).(*commonpb.Config)
	late.Sequence = 2
	_, err = c.bundle.Next(c.transaction(late, update))
	assert.ErrorContains(t, err, "does not follow")
	_, err = c.bundle.Next(c.transaction(config, c.update(upgrade)))
	assert.ErrorIs(t, err, ErrUnauthorized)

	env, err := NewConfigTransaction(config, update.Envelope, "mychannel", c.signer("Org1MSP", "admin"))
	require.NoError(t, err)
	msg, err := protoutil.OpenEnvelope(env)
	require.NoError(t, err)
	_, err = c.bundle.Next(msg)
	assert.ErrorContains(t, err, "is no orderer")
	forged := c.transaction(config, update)
	forged.Envelope.Signature[9]++
	_, err = c.bundle.Next(forged)
	assert.ErrorContains(t, err, "its creator")
	_, err = c.bundle.Next(c.transaction(config, update))
	require.NoError(t, err)
}

// TestNextAsksWhatPeersAskOfEveryTransaction: peers would leave out what orderers have put in force.
func TestNextAsksWhatPeersAskOfEveryTransaction(t *testing.T) {
	c := newChannel(t)
	update := c.update(upgrade, c.admins("Org1MSP", "Org2MSP")...)
	config, err := c.bundle.Updated(update, time.Now())
	require.NoError(t, err)
	orderer := c.signer("OrdererMSP", "orderer")
	elsewhere, err := NewConfigTransaction(config, update.Envelope, "other", orderer)
	require.NoError(t, err)
	bare := c.transaction(config, update)
	var payload commonpb.Payload
	require.NoError(t, proto.Unmarshal(bare.Envelope.Payload, &payload))
	payload.Header.SignatureHeader = mustMarshal(&commonpb.SignatureHeader{Creator: bare.Signature.Creator})
	raw := mustMarshal(&payload)
	signature, err := orderer.Sign(raw)
	require.NoError(t, err)
	for name, env := range map[string]*commonpb.Envelope{"of another channel": elsewhere, "without nonce": {Payload: raw, Signature: signature}} {
		msg, err := protoutil.OpenEnvelope(env)
		require.NoError(t, err, name)
		_, err = c.bundle.Next(msg)
		assert.ErrorIs(t, err, ErrInvalid, name)
	}
}

func FuzzUpdated(f *testing.F) {
	_, g := newWorld(f)
	block, err := NewGenesis(g)
	require.NoError(f, err)
	b, err := FromBlock(block)
	require.NoError(f, err)
	to, err := upgrade.Apply(b.Config)
	require.NoError(f, err)
	update, err := NewUpdate("mychannel", b.Config, to)
	require.NoError(f, err)
	f.Add(update.ConfigUpdate)
	header := &commonpb.ChannelHeader{Type: int32(commonpb.HeaderType_CONFIG_UPDATE), ChannelId: "mychannel"}
	f.Fuzz(func(t *testing.T, data []byte) {
		msg := &protoutil.Message{Channel: header, Data: mustMarshal(&commonpb.ConfigUpdateEnvelope{ConfigUpdate: data})}
		if _, err := b.Updated(msg, time.Now()); err == nil {
			t.Fatal("an update that nobody signed")
		}
	})
}

// TestRevocationListsComeByPatch: they add up, and hold from the next version on.
func TestRevocationListsComeByPatch(t *testing.T) {
	c := newChannel(t)
	config := c.bundle.Config
	for i, unit := range []string{"client", "peer"} {
		signer := c.signer("Org1MSP", unit)
		before, err := FromConfig("mychannel", config)
		require.NoError(t, err)
		id, err := before.MSP.Deserialize(signer.Serialized())
		require.NoError(t, err)
		list, err := c.world["Org1MSP"].Revoke(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Cert.Raw}))
		require.NoError(t, err)
		patch := Patch{RevocationLists: map[string][]string{"Org1MSP": {string(list)}}}
		config, err = patch.Apply(config)
		require.NoError(t, err)
		after, err := FromConfig("mychannel", config)
		require.NoError(t, err)
		for _, revoked := range []string{"client", "peer"}[:i+1] {
			_, err = after.Admits(c.signer("Org1MSP", revoked).Serialized(), ChannelReaders)
			assert.ErrorIs(t, err, identity.ErrRevoked)
		}
		_, err = after.Admits(c.signer("Org1MSP", "admin").Serialized(), ChannelReaders)
		assert.NoError(t, err)
	}
	_, err := (&Patch{RevocationLists: map[string][]string{"NoMSP": nil}}).Apply(config)
	assert.ErrorContains(t, err, `organisation "NoMSP"`)
}

// TestPeersAreLeftAnOrdererToReach: they hear of no later update otherwise.
func TestPeersAreLeftAnOrdererToReach(t *testing.T) {
	type edits []func(orderer *commonpb.ConfigGroup)
	edited := func(config *commonpb.Config, all edits) {
		for _, edit := range all {
			edit(config.ChannelGroup.Groups[ordererGroup])
		}
	}
	endpoints := func(addresses ...string) func(*commonpb.ConfigGroup) {
		return func(orderer *commonpb.ConfigGroup) {
			set(orderer.Groups["OrdererMSP"], keyEndpoints, &commonpb.OrdererAddresses{Addresses: addresses})
		}
	}
	unnamed := func(orderer *commonpb.ConfigGroup) { delete(orderer.Groups["OrdererMSP"].Values, keyEndpoints) }
	distrusted := func(orderer *commonpb.ConfigGroup) {
		editMSP(t, orderer.Groups["OrdererMSP"], func(msp *msppb.FabricMSPConfig) { msp.TlsRootCerts = nil })
	}
	batches := func(orderer *commonpb.ConfigGroup) {
		set(orderer, keyBatchTimeout, &ordererpb.BatchTimeout{Timeout: "7s"})
	}
	for _, test := range []struct {
		name      string
		now, next edits
		refused   string
	}{
		{"one address is left", nil, edits{endpoints("127.0.0.1:7049")}, ""},
		{"no address is left", nil, edits{endpoints()}, "Endpoints of the orderers' organisations: at least one host:port"},
		{"no addresses are said", nil, edits{unnamed}, "Endpoints of the orderers' organisations"},
		{"no authority is left", nil, edits{distrusted}, "tls_root_certs of the orderers' organisations: at least one"},
		{"there were none", edits{unnamed, distrusted}, edits{batches}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChannel(t)
			edited(c.bundle.Config, test.now)
			var err error
			c.bundle, err = FromConfig("mychannel", c.bundle.Config)
			require.NoError(t, err)
			to := proto.Clone(c.bundle.Config).(*commonpb.Config)
			edited(to, test.next)
			update, err := NewUpdate("mychannel", c.bundle.Config, to)
			require.NoError(t, err)
			_, err = c.bundle.Updated(c.wrap(update, c.admins("OrdererMSP")...), time.Now())
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, test.refused)
		})
	}
}
