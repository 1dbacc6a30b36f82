package channelconfig

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestOtherACLsThanFabricsDefaultsAreRefused: an administrator who restricts a query by them must not believe that it holds.
func TestOtherACLsThanFabricsDefaultsAreRefused(t *testing.T) {
	acls := func(policy string) *commonpb.ConfigValue {
		inner := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "qscc/GetBlockByNumber")
		inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), policy)
		return &commonpb.ConfigValue{ModPolicy: policyAdmins, Value: protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)}
	}
	for _, test := range []struct {
		name      string
		now, next *commonpb.ConfigValue
		refused   bool
	}{
		{"the first", nil, acls("/Channel/Application/Admins"), true},
		{"others", acls("/Channel/Application/Admins"), acls("/Channel/Application/Org1MSP/Admins"), true},
		{"none of them", nil, &commonpb.ConfigValue{ModPolicy: policyAdmins}, false},
		{"the same", acls("/Channel/Application/Admins"), acls("/Channel/Application/Admins"), false},
		{"none any longer", acls("/Channel/Application/Admins"), nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChannel(t)
			edit := func(config *commonpb.Config, value *commonpb.ConfigValue) {
				if delete(config.ChannelGroup.Groups[applicationGroup].Values, keyACLs); value != nil {
					config.ChannelGroup.Groups[applicationGroup].Values[keyACLs] = value
				}
			}
			edit(c.bundle.Config, test.now)
			var err error
			c.bundle, err = FromConfig("mychannel", c.bundle.Config)
			require.NoError(t, err)
			assert.Equal(t, test.now != nil, c.bundle.HasACLs())
			to, err := upgrade.Apply(c.bundle.Config)
			require.NoError(t, err)
			edit(to, test.next)
			update, err := NewUpdate("mychannel", c.bundle.Config, to)
			require.NoError(t, err)
			config, err := c.bundle.Updated(c.wrap(update, c.admins("Org1MSP", "Org2MSP")...), time.Now())
			require.NoError(t, err, "it may be ordered already")
			if err = c.bundle.CheckACLs(config); !test.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "ACLs of the application: Fabric's defaults hold")
		})
	}
}
