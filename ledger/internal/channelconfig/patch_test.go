package channelconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestPoliciesThatNobodyCouldSatisfyAreRefused, as are new ones that nothing asks for: a slip would lock the channel, or have no effect.
func TestPoliciesThatNobodyCouldSatisfyAreRefused(t *testing.T) {
	c := newChannel(t)
	delete(c.bundle.Config.ChannelGroup.Groups[applicationGroup].Groups["Org2MSP"].Policies, policyEndorsement)
	for _, test := range []struct{ path, rule, refused string }{
		{"/Channel/Application/Admins", "MAJORITY Admin", "MAJORITY Admin: 0 of the groups below have that policy, and it needs 2: of Admins, Endorsement, Readers, Writers, one"},
		{"/Channel/Application/Admins", "ANY ", "0 of the groups below have that policy, and it needs 1"},
		{"/Channel/Application/Admins", "ALL Endorsement", "1 of the groups below have that policy, and it needs 2"},
		{"/Channel/Application/Admins", "MAJORITY Endorsement", "1 of the groups below have that policy, and it needs 2"},
		{"/Channel/Application/Org1MSP/Admins", "ANY Admins", "of which there are none: a signature policy is accepted"},
		{"/Channel/Application/Admins", "OR('Org1MPS.admin')", "the policy names Org1MPS: OrdererMSP, Org1MSP, Org2MSP are accepted"},
		{"/Channel/Application/Writres", "ANY Writers", `policy "/Channel/Application/Writres": the group has Admins, Endorsement, Readers, Writers: one of these, or one that `},
		{"/Channel/Application/Org9MSP/Writers", "OR('Org1MSP.admin')", "the path of a group and a name are accepted"},
		{"/Channel/Application/Admins", "MAJORITY Admins", ""},
		{"/Channel/Application/Endorsement", "ANY Endorsement", ""},
		{"/Channel/Readers", "ALL Readers", ""},
		{"/Channel/Application/Writers", "OR('OrdererMSP.admin', 'Org2MSP.client')", ""},
	} {
		_, err := (&Patch{Policies: map[string]string{test.path: test.rule}}).Apply(c.bundle.Config)
		if test.refused == "" {
			assert.NoError(t, err, test.path)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid, test.rule)
		assert.ErrorContains(t, err, test.refused)
	}
}

// TestAPolicyIsNewWhereAnotherOneAsksForIt: what is missing is never satisfied, so that it has to be given.
func TestAPolicyIsNewWhereAnotherOneAsksForIt(t *testing.T) {
	const own, above, beside = "/Channel/Application/Org2MSP/Endorsement", "/Channel/Application/Endorsement", "/Channel/Application/Org1MSP/Endorsement"
	other := map[string]string{above: "ANY Readers"}
	for name, test := range map[string]struct {
		inForce map[string]string // of own's group, of those beside it and above it
		patch   map[string]string
		refused string
	}{
		"in force above":        {map[string]string{above: "MAJORITY Endorsement"}, map[string]string{own: "OR('Org2MSP.peer')"}, ""},
		"in the same patch":     {other, map[string]string{above: "ANY Endorsement", own: "OR('Org2MSP.peer')"}, ""},
		"all in the same patch": {other, map[string]string{above: "ALL Endorsement", own: "OR('Org2MSP.peer')", beside: "OR('Org1MSP.peer')"}, ""},
		"beside":                {map[string]string{beside: "OR('Org1MSP.peer')"}, map[string]string{own: "OR('Org2MSP.peer')"}, ""},
		"another one is asked for": {
			other, map[string]string{own: "OR('Org2MSP.peer')"},
			`policy "` + own + `": the group has Admins, Readers, Writers: one of these, or one that `,
		},
		"too few have it": {other, map[string]string{above: "ALL Endorsement", own: "OR('Org2MSP.peer')"}, "1 of the groups below have that policy, and it needs 2"},
	} {
		config := newChannel(t).bundle.Config
		application := config.ChannelGroup.Groups[applicationGroup]
		for _, group := range []*commonpb.ConfigGroup{application, application.Groups["Org1MSP"], application.Groups["Org2MSP"]} {
			delete(group.Policies, policyEndorsement)
		}
		if rule, sub, ok := strings.Cut(test.inForce[above], " "); ok {
			setMeta(application, policyEndorsement, sub, commonpb.ImplicitMetaPolicy_Rule(commonpb.ImplicitMetaPolicy_Rule_value[rule]))
		}
		if test.inForce[beside] != "" {
			parsed, err := policy.Parse(test.inForce[beside])
			require.NoError(t, err)
			setPolicy(application.Groups["Org1MSP"], policyEndorsement, commonpb.Policy_SIGNATURE, parsed)
		}
		next, err := (&Patch{Policies: test.patch}).Apply(config)
		if test.refused != "" {
			require.ErrorIs(t, err, ErrInvalid, name)
			assert.ErrorContains(t, err, test.refused, name)
			continue
		}
		require.NoError(t, err, name)
		assert.NotNil(t, next.ChannelGroup.Groups[applicationGroup].Groups["Org2MSP"].Policies[policyEndorsement], name)
	}
	config := newChannel(t).bundle.Config
	config.ChannelGroup.Groups[applicationGroup].Groups["Org2MSP"].Policies = nil
	_, err := (&Patch{Policies: map[string]string{own: "OR('Org2MSP.peer')"}}).Apply(config)
	assert.NoError(t, err, "a group without any policy")
}

// renamed gives organisations' groups other names than their MSP ids, as Fabric's configtxgen may.
func renamed(config *commonpb.Config) *commonpb.Config {
	out := proto.Clone(config).(*commonpb.Config)
	for group, names := range map[string]map[string]string{
		applicationGroup: {"Org1MSP": "Org1", "Org2MSP": "Org2"}, ordererGroup: {"OrdererMSP": "OrdererOrg"},
	} {
		groups := out.ChannelGroup.Groups[group].Groups
		for mspID, name := range names {
			groups[name] = groups[mspID]
			delete(groups, mspID)
		}
	}
	return out
}

// TestOrganisationsAreKnownByTheirMSPs, whatever their groups are called.
func TestOrganisationsAreKnownByTheirMSPs(t *testing.T) {
	c := newChannel(t)
	config := renamed(c.bundle.Config)
	consenter := ConsenterPatch{Address: "127.0.0.1:7070", MSPID: "OrdererMSP"}
	unnamed := ConsenterPatch{Address: "127.0.0.1:7070", MSPID: "OrdererOrg"}
	for _, test := range []struct {
		patch   Patch
		refused string
	}{
		{Patch{Chaincodes: map[string]ChaincodePatch{"kv": {Policy: "OR('Org1MSP.peer')"}}}, ""},
		{Patch{Chaincodes: map[string]ChaincodePatch{"kv": {Policy: "OR('Org1.peer')"}}}, "the policy names Org1: Org1MSP, Org2MSP are accepted"},
		{Patch{Policies: map[string]string{"/Channel/Application/Org1/Writers": "OR('Org1MSP.admin')"}}, ""},
		{Patch{Policies: map[string]string{"/Channel/Application/Org1/Writers": "OR('Org1.admin')"}}, "the policy names Org1: "},
		{Patch{RevocationLists: map[string][]string{"Org1MSP": nil}}, ""},
		{Patch{RevocationLists: map[string][]string{"Org1": nil}}, `revocation list of organisation "Org1"`},
		{Patch{Consenters: []ConsenterPatch{consenter}}, ""},
		{Patch{Consenters: []ConsenterPatch{unnamed}}, `msp_id "OrdererOrg": one of [OrdererMSP] is accepted`},
		{Patch{Organisations: []OrganisationPatch{{MSPID: "Org1MSP"}}}, `organisation "Org1MSP": a name that the channel does not have yet`},
	} {
		_, err := test.patch.Apply(config)
		if test.refused == "" {
			assert.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, test.refused)
	}
}

// TestAConsentersOrganisationIsItsMSP where none is named, and not its group.
func TestAConsentersOrganisationIsItsMSP(t *testing.T) {
	g, _ := bftWorld(t, 5)
	fifth := g.Identities[4]
	g.Consenters, g.Identities = g.Consenters[:4], g.Identities[:4]
	root, err := g.channelGroup()
	require.NoError(t, err)
	patch := Patch{Consenters: []ConsenterPatch{{Address: "127.0.0.1:7054", TLSCert: "c", Identity: string(fifth.Cert)}}}
	grown, err := patch.Apply(renamed(&commonpb.Config{ChannelGroup: root}))
	require.NoError(t, err)
	var orderers commonpb.Orderers
	require.NoError(t, get(grown.ChannelGroup.Groups[ordererGroup], keyOrderers, &orderers))
	assert.Equal(t, "OrdererMSP", orderers.ConsenterMapping[4].MspId)
}

// eachModPolicy visits the mod_policy of every element of a group.
func eachModPolicy(path string, group *commonpb.ConfigGroup, visit func(element string, modPolicy *string)) {
	visit(path, &group.ModPolicy)
	for name, v := range group.Values {
		visit(path+"/"+name, &v.ModPolicy)
	}
	for name, p := range group.Policies {
		visit(path+"/"+name+" (policy)", &p.ModPolicy)
	}
	for name, g := range group.Groups {
		eachModPolicy(path+"/"+name, g, visit)
	}
}

// TestAPatchLeavesWhoMayChangeWhat: of a changed element only the value is another one.
func TestAPatchLeavesWhoMayChangeWhat(t *testing.T) {
	raft := newChannel(t).bundle.Config
	bft, g := consentersChannel(t, BFT, 4)
	fifth := ConsenterPatch{Address: "127.0.0.1:7100", TLSCert: string(g.Identities[0].Cert), Identity: string(g.Identities[0].Cert)}
	all := Patch{
		Chaincodes: upgrade.Chaincodes,
		Policies: map[string]string{
			"/Channel/Application/Writers": "ANY Admins", "/Channel/Application/Org1MSP/Writers": "OR('Org1MSP.admin')",
		},
		RevocationLists: map[string][]string{"Org1MSP": nil},
		Consenters:      []ConsenterPatch{{Address: "127.0.0.1:7100", TLSCert: "c"}},
		BatchTimeout:    time.Minute, MaxMessageCount: 7,
	}
	for name, test := range map[string]struct {
		config *commonpb.Config
		patch  Patch
	}{"all": {raft, all}, "PBFT's consenters": {bft.bundle.Config, Patch{Consenters: []ConsenterPatch{fifth}}}} {
		config := proto.Clone(test.config).(*commonpb.Config)
		want := map[string]string{}
		eachModPolicy(rootPath, config.ChannelGroup, func(element string, modPolicy *string) {
			*modPolicy = "/Channel/Orderer/Admins"
			want[element] = *modPolicy
		})
		out, err := test.patch.Apply(config)
		require.NoError(t, err, name)
		assert.False(t, proto.Equal(config, out), name)
		got := map[string]string{}
		eachModPolicy(rootPath, out.ChannelGroup, func(element string, modPolicy *string) { got[element] = *modPolicy })
		assert.Equal(t, want, got, name)
	}
}
