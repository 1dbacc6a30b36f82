package channelconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestWhatNobodyCouldChangeAgainIsRefused: an update by which an element names no policy would be its last one.
func TestWhatNobodyCouldChangeAgainIsRefused(t *testing.T) {
	application := func(config *commonpb.Config) *commonpb.ConfigGroup {
		return config.ChannelGroup.Groups[applicationGroup]
	}
	added := func(config *commonpb.Config) *commonpb.ConfigGroup {
		group := newGroup()
		group.ModPolicy = policyAdmins
		application(config).Groups["Org3MSP"] = group
		return group
	}
	for _, test := range []struct {
		at   string
		edit func(config *commonpb.Config, modPolicy string)
	}{
		{"/Channel/Application", func(c *commonpb.Config, p string) { application(c).ModPolicy = p }},
		{"/Channel/Application/Chaincodes", func(c *commonpb.Config, p string) { application(c).Values[keyChaincodes].ModPolicy = p }},
		{"/Channel/Application/Admins", func(c *commonpb.Config, p string) { application(c).Policies[policyAdmins].ModPolicy = p }},
		{"/Channel/Application/New", func(c *commonpb.Config, p string) {
			application(c).Values["New"] = &commonpb.ConfigValue{Value: []byte("x"), ModPolicy: p}
		}},
		{"/Channel/Application/New", func(c *commonpb.Config, p string) {
			policy := proto.Clone(application(c).Policies[policyAdmins]).(*commonpb.ConfigPolicy)
			policy.ModPolicy = p
			application(c).Policies["New"] = policy
		}},
		{"/Channel/Application/Org3MSP", func(c *commonpb.Config, p string) { added(c).ModPolicy = p }},
		{"/Channel/Application/Org3MSP/New", func(c *commonpb.Config, p string) {
			added(c).Values["New"] = &commonpb.ConfigValue{ModPolicy: p}
		}},
	} {
		for modPolicy, accepted := range map[string]bool{
			"": false, "/": false, "..": false, "a b": false, "Org1MSP//Admins": false, "/Channel/./Admins": false, "Admins/": false,
			strings.Repeat("x", 250): false,
			"Readers":                true, "/Channel/Application/Admins": true, "Org1MSP/Admins": true, strings.Repeat("x", 249): true,
		} {
			t.Run(test.at+" by "+modPolicy, func(t *testing.T) {
				c := newChannel(t)
				next := proto.Clone(c.bundle.Config).(*commonpb.Config)
				test.edit(next, modPolicy)
				update, err := NewUpdate("mychannel", c.bundle.Config, next)
				require.NoError(t, err)
				var wire commonpb.ConfigUpdate
				require.NoError(t, proto.Unmarshal(update.ConfigUpdate, &wire))
				m := merge{needed: map[string]string{}}
				group, err := m.group(rootPath, c.bundle.Config.ChannelGroup, wire.WriteSet, 0)
				require.NoError(t, err)
				err = c.bundle.CheckModPolicies(&commonpb.Config{ChannelGroup: group})
				if accepted {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrInvalid)
				assert.ErrorContains(t, err, "of "+test.at+": the name of a policy, or its path, is accepted")
			})
		}
	}
}

// TestWhatStaysMayNameNoPolicy: there are chains in which an element names none, and all else can be changed.
func TestWhatStaysMayNameNoPolicy(t *testing.T) {
	c := newChannel(t)
	old := proto.Clone(c.bundle.Config).(*commonpb.Config)
	old.ChannelGroup.Groups[applicationGroup].Policies[policyReaders].ModPolicy = ""
	var err error
	c.bundle, err = FromConfig("mychannel", old)
	require.NoError(t, err)
	config, err := c.bundle.Updated(c.update(upgrade, c.admins("Org1MSP", "Org2MSP")...), time.Now())
	require.NoError(t, err)
	require.NoError(t, c.bundle.CheckModPolicies(config))

	// It may be ordered already.
	next := proto.Clone(old).(*commonpb.Config)
	next.ChannelGroup.Groups[applicationGroup].Values[keyChaincodes].ModPolicy = ""
	update, err := NewUpdate("mychannel", old, next)
	require.NoError(t, err)
	config, err = c.bundle.Updated(c.wrap(update, c.admins("Org1MSP", "Org2MSP")...), time.Now())
	require.NoError(t, err)
	require.ErrorIs(t, c.bundle.CheckModPolicies(config), ErrInvalid)
}
