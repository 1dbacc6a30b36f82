package channelconfig

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
)

// TestOrganisationsStayWhoTheyAre under their groups' names, as in Fabric. They come and go.
func TestOrganisationsStayWhoTheyAre(t *testing.T) {
	c := newChannel(t)
	renamed := func(part, name string) func(*commonpb.ConfigGroup) {
		return func(root *commonpb.ConfigGroup) {
			editMSP(t, root.Groups[part].Groups[name], func(msp *msppb.FabricMSPConfig) { msp.Name = "OtherMSP" })
		}
	}
	for name, test := range map[string]struct {
		change  func(root *commonpb.ConfigGroup)
		refused string
	}{
		"as it was":                       {func(*commonpb.ConfigGroup) {}, ""},
		"another MSP id":                  {renamed(applicationGroup, "Org1MSP"), `/Channel/Application/Org1MSP: its MSP id "Org1MSP" stays as it is, "OtherMSP" is another`},
		"another MSP id of the orderers'": {renamed(ordererGroup, "OrdererMSP"), `/Channel/Orderer/OrdererMSP: its MSP id "OrdererMSP" stays`},
		"no applications":                 {func(root *commonpb.ConfigGroup) { delete(root.Groups, applicationGroup) }, "/Channel/Application: a channel that has this group keeps it"},
		"an organisation goes":            {func(root *commonpb.ConfigGroup) { delete(root.Groups[applicationGroup].Groups, "Org2MSP") }, ""},
		"one comes":                       {func(root *commonpb.ConfigGroup) { root.Groups[applicationGroup].Groups["Org3"] = newGroup() }, ""},
		"an MSP that does not parse": {func(root *commonpb.ConfigGroup) {
			root.Groups[applicationGroup].Groups["Org1MSP"].Values[keyMSP].Value = []byte{0xff}
		}, keyMSP},
	} {
		next := proto.Clone(c.bundle.Config).(*commonpb.Config)
		test.change(next.ChannelGroup)
		err := c.bundle.CheckOrganisations(next)
		if test.refused == "" {
			assert.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.refused, name)
	}
	c.bundle.Config.ChannelGroup.Groups[applicationGroup] = nil
	assert.NoError(t, c.bundle.CheckOrganisations(c.bundle.Config), "there were none")
}
