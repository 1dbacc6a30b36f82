package channelconfig

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
)

// mspOf is an organisation's MSP as its group has it, and decoded.
func mspOf(group *commonpb.ConfigGroup) (*msppb.MSPConfig, *msppb.FabricMSPConfig, error) {
	wire, msp := &msppb.MSPConfig{}, &msppb.FabricMSPConfig{}
	if err := get(group, keyMSP, wire); err != nil {
		return nil, nil, err
	}
	return wire, msp, protoutil.Unmarshal(wire.Config, msp)
}

// byMSP gives the organisations in a group by their MSP ids, which policies and certificates go by. Their groups may have
// other names.
func byMSP(group *commonpb.ConfigGroup) (map[string]*commonpb.ConfigGroup, error) {
	orgs := map[string]*commonpb.ConfigGroup{}
	for _, name := range sortedGroups(group) {
		_, msp, err := mspOf(group.Groups[name])
		if err != nil {
			return nil, fmt.Errorf("organisation %s: %w", name, err)
		}
		orgs[msp.Name] = group.Groups[name]
	}
	return orgs, nil
}
