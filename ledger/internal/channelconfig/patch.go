package channelconfig

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// Patch is a change of a configuration as operators write it. What it does not mention stays.
type Patch struct {
	// Chaincodes are defined, or given a new version or policy, by name.
	Chaincodes map[string]ChaincodePatch `yaml:"chaincodes"`
	// Policies are set by path: "/Channel/Application/Writers": "ANY Writers", or a signature
	// policy such as "OR('Org1MSP.admin')".
	Policies map[string]string `yaml:"policies"`
	// Organisations are added to those that use the channel. Certificates are PEM.
	Organisations []OrganisationPatch `yaml:"organisations"`
	// RevocationLists are added by organisation; PEM.
	RevocationLists map[string][]string `yaml:"revocation_lists"`
	// Consenters join those who order by Raft, PBFT or Zyzzyva, leave them, or get other certificates; one at a time.
	Consenters []ConsenterPatch `yaml:"consenters"`
	// BatchTimeout and MaxMessageCount are Fabric's cutting rules.
	BatchTimeout    time.Duration `yaml:"batch_timeout"`
	MaxMessageCount uint32        `yaml:"max_message_count"`
}

// ChaincodePatch is a chaincode's new definition. An empty version or policy stays what it was.
type ChaincodePatch struct {
	Version string `yaml:"version"`
	Policy  string `yaml:"policy"`
}

// OrganisationPatch is a new organisation.
type OrganisationPatch struct {
	MSPID    string   `yaml:"msp_id"`
	RootCert string   `yaml:"root_cert"`
	TLSCert  string   `yaml:"tls_cert"`
	Peers    []string `yaml:"peers"` // host:port
	// IntermediateCerts and TLSIntermediateCerts are authorities below the two, where it has any.
	IntermediateCerts    []string `yaml:"intermediate_certs"`
	TLSIntermediateCerts []string `yaml:"tls_intermediate_certs"`
}

// Apply gives the configuration with the changes in it.
func (p *Patch) Apply(config *commonpb.Config) (*commonpb.Config, error) {
	out := proto.Clone(config).(*commonpb.Config)
	root := out.GetChannelGroup()
	application, orderer := root.GetGroups()[applicationGroup], root.GetGroups()[ordererGroup]
	if application == nil || orderer == nil {
		return nil, fmt.Errorf("%w: it has no group %s or %s", ErrInvalid, applicationGroup, ordererGroup)
	}
	for _, group := range []*commonpb.ConfigGroup{root, application, orderer} {
		fill(group)
	}
	for _, step := range []func() error{
		func() error { return p.organisations(application) },
		func() error { return p.chaincodes(application) },
		func() error { return p.policies(root) },
		func() error { return p.revocations(application, orderer) },
		func() error { return p.consenters(orderer) },
		func() error { return p.batches(orderer) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *Patch) organisations(application *commonpb.ConfigGroup) error {
	for _, o := range p.Organisations {
		known, err := byMSP(application)
		if err != nil {
			return err
		}
		if known[o.MSPID] != nil || application.Groups[o.MSPID] != nil || o.MSPID == "" {
			return fmt.Errorf("%w: organisation %q: a name that the channel does not have yet is accepted", ErrInvalid, o.MSPID)
		}
		org := GenesisOrg{MSPID: o.MSPID, RootCert: []byte(o.RootCert), TLSCert: []byte(o.TLSCert), Endpoints: o.Peers}
		for _, text := range o.IntermediateCerts {
			org.IntermediateCerts = append(org.IntermediateCerts, []byte(text))
		}
		for _, text := range o.TLSIntermediateCerts {
			org.TLSIntermediateCerts = append(org.TLSIntermediateCerts, []byte(text))
		}
		group, err := org.application()
		if err != nil {
			return err
		}
		application.Groups[o.MSPID] = group
	}
	return nil
}

func (p *Patch) chaincodes(application *commonpb.ConfigGroup) error {
	if len(p.Chaincodes) == 0 {
		return nil
	}
	var all streampb.ChaincodeDefinitions
	if application.Values[keyChaincodes] != nil {
		if err := get(application, keyChaincodes, &all); err != nil {
			return err
		}
	}
	orgs, err := byMSP(application)
	if err != nil {
		return err
	}
	if all.Chaincodes == nil {
		all.Chaincodes = map[string]*streampb.ChaincodeDefinition{}
	}
	for name, change := range p.Chaincodes {
		if change == (ChaincodePatch{}) {
			return fmt.Errorf("%w: chaincode %q: a new version, a new policy, or both are accepted", ErrInvalid, name)
		}
		definition := all.Chaincodes[name]
		if definition == nil {
			if change.Policy == "" || change.Version == "" {
				return fmt.Errorf("%w: chaincode %q is new: it needs a version and a policy", ErrInvalid, name)
			}
			definition = &streampb.ChaincodeDefinition{Name: name}
			all.Chaincodes[name] = definition
		}
		definition.Sequence++
		if change.Version != "" {
			definition.Version = change.Version
		}
		if change.Policy != "" {
			parsed, err := policy.Parse(change.Policy)
			if err == nil {
				err = policy.CheckOrganisations(parsed, slices.Sorted(maps.Keys(orgs)))
			}
			if err != nil {
				return fmt.Errorf("%w: chaincode %s: %w", ErrInvalid, name, err)
			}
			definition.EndorsementPolicy = mustMarshal(&peerpb.ApplicationPolicy{Type: &peerpb.ApplicationPolicy_SignaturePolicy{SignaturePolicy: parsed}})
		}
	}
	set(application, keyChaincodes, &all)
	return nil
}

func (p *Patch) revocations(groups ...*commonpb.ConfigGroup) error {
	for mspID, lists := range p.RevocationLists {
		found := false
		for _, group := range groups {
			orgs, err := byMSP(group)
			if err != nil {
				return err
			}
			org := orgs[mspID]
			if org == nil {
				continue
			}
			found = true
			wire, msp, err := mspOf(org)
			if err != nil {
				return err
			}
			for _, list := range lists {
				msp.RevocationList = append(msp.RevocationList, []byte(list))
			}
			wire.Config = mustMarshal(msp)
			set(org, keyMSP, wire)
		}
		if !found {
			return fmt.Errorf("%w: revocation list of organisation %q: one that the channel has is accepted", ErrInvalid, mspID)
		}
	}
	return nil
}

func (p *Patch) batches(orderer *commonpb.ConfigGroup) error {
	if p.BatchTimeout != 0 {
		set(orderer, keyBatchTimeout, &ordererpb.BatchTimeout{Timeout: p.BatchTimeout.String()})
	}
	if p.MaxMessageCount == 0 {
		return nil
	}
	var size ordererpb.BatchSize
	if err := get(orderer, keyBatchSize, &size); err != nil {
		return err
	}
	size.MaxMessageCount = p.MaxMessageCount
	set(orderer, keyBatchSize, &size)
	return nil
}

// application is the group of an organisation whose peers and clients use the channel.
func (o *GenesisOrg) application() (*commonpb.ConfigGroup, error) {
	group, err := o.group(identity.Client, identity.Peer)
	if err != nil {
		return nil, err
	}
	peers, err := anchorPeers(o.MSPID, o.Endpoints)
	if err != nil {
		return nil, err
	}
	set(group, keyAnchorPeers, peers)
	return group, nil
}
