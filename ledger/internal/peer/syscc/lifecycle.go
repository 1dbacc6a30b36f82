package syscc

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/lifecyclepb"
)

// Fabric's default plugins: what they do is what this ledger does.
const (
	endorsementPlugin = "escc"
	validationPlugin  = "vscc"
)

// lifecycleQuery is _lifecycle: the function and its marshalled arguments, on the proposal's channel.
func (s *System) lifecycleQuery(q Query) (proto.Message, error) {
	if len(q.Args) == 0 {
		return nil, fmt.Errorf("lifecycle scc must be invoked with arguments")
	}
	if len(q.Args) != 2 {
		return nil, fmt.Errorf("lifecycle scc operations require exactly two arguments but received %d", len(q.Args))
	}
	switch function := string(q.Args[0]); function {
	case "QueryChaincodeDefinition", "QueryChaincodeDefinitions":
	case "InstallChaincode", "ApproveChaincodeDefinitionForMyOrg", "CommitChaincodeDefinition", "CheckCommitReadiness",
		"QueryInstalledChaincode", "QueryInstalledChaincodes", "GetInstalledChaincodePackage", "QueryApprovedChaincodeDefinition":
		return nil, fmt.Errorf("%s: this ledger installs no packages; chaincodes run as services that the peer's file names, "+
			"and are defined by the channel's configuration (qioi-ledger config upgrade-chaincode)", function)
	default:
		return nil, fmt.Errorf("failed to invoke backing implementation of '%s': receiver has no method of this name", function)
	}
	ch := s.channels[q.ChannelID]
	if ch == nil {
		return nil, fmt.Errorf("could not get channelconfig for channel '%s'", q.ChannelID)
	}
	if err := q.admits(ch, writers); err != nil {
		return nil, fabrics("Failed to authorize invocation due to failed ACL check: %w", err)
	}
	if string(q.Args[0]) == "QueryChaincodeDefinitions" {
		return definitions(ch.Bundle()), nil
	}
	var args lifecyclepb.QueryChaincodeDefinitionArgs
	if err := protoutil.Unmarshal(q.Args[1], &args); err != nil {
		return nil, err
	}
	return definition(ch.Bundle(), args.Name)
}

// definition tells one. It stands in the channel's configuration, which holds for every organisation.
func definition(b *channelconfig.Bundle, name string) (*lifecyclepb.QueryChaincodeDefinitionResult, error) {
	cc := b.Chaincodes[name]
	if cc == nil {
		return nil, fmt.Errorf("namespace %s %w", name, errNotDefined)
	}
	out := &lifecyclepb.QueryChaincodeDefinitionResult{
		Sequence: int64(cc.Sequence), Version: cc.Version, EndorsementPlugin: endorsementPlugin, ValidationPlugin: validationPlugin,
		ValidationParameter: cc.Rule, Approvals: map[string]bool{},
	}
	for mspID := range b.Orgs {
		out.Approvals[mspID] = true
	}
	return out, nil
}

func definitions(b *channelconfig.Bundle) *lifecyclepb.QueryChaincodeDefinitionsResult {
	out := &lifecyclepb.QueryChaincodeDefinitionsResult{}
	for _, name := range slices.Sorted(maps.Keys(b.Chaincodes)) {
		cc := b.Chaincodes[name]
		out.ChaincodeDefinitions = append(out.ChaincodeDefinitions, &lifecyclepb.QueryChaincodeDefinitionsResult_ChaincodeDefinition{
			Name: name, Sequence: int64(cc.Sequence), Version: cc.Version,
			EndorsementPlugin: endorsementPlugin, ValidationPlugin: validationPlugin, ValidationParameter: cc.Rule,
		})
	}
	return out
}
