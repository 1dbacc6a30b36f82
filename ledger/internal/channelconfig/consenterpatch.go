package channelconfig

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// ConsenterPatch adds a consenter, changes its certificates, or removes it.
type ConsenterPatch struct {
	Address string `yaml:"address"` // host:port
	// TLSCert is what it shows to the others, as server and as client, unless ClientTLSCert is another one; PEM.
	TLSCert       string `yaml:"tls_cert"`
	ClientTLSCert string `yaml:"client_tls_cert"`
	// MSPID is its organisation; it may be left out where the channel has one organisation of orderers.
	MSPID string `yaml:"msp_id"`
	// Identity is the certificate that it signs with, PEM, where the channel's consenters may lie.
	Identity string `yaml:"identity"`
	Remove   bool   `yaml:"remove"`
	Rotate   bool   `yaml:"rotate"` // it must be there already
}

// consenters changes both who orders and the addresses at which peers and clients find orderers.
func (p *Patch) consenters(orderer *commonpb.ConfigGroup) error {
	if len(p.Consenters) == 0 {
		return nil
	}
	var kind ordererpb.ConsensusType
	if err := get(orderer, keyConsensusType, &kind); err != nil {
		return err
	}
	change := consensusTypes[kind.Type].change
	if change == nil {
		accepted := strings.Join(typesWithConsenters(), ", ")
		return fmt.Errorf("%w: consenters: the channel is ordered by %s; %s are accepted", ErrInvalid, kind.Type, accepted)
	}
	for _, c := range p.Consenters {
		host, port, err := net.SplitHostPort(c.Address)
		number, convErr := strconv.ParseUint(port, 10, 16)
		if err != nil || convErr != nil {
			return fmt.Errorf("%w: consenter %q: host:port is accepted", ErrInvalid, c.Address)
		}
		fresh := &etcdraftpb.Consenter{Host: host, Port: uint32(number), ServerTlsCert: []byte(c.TLSCert), ClientTlsCert: []byte(c.TLSCert)}
		if c.ClientTLSCert != "" {
			fresh.ClientTlsCert = []byte(c.ClientTLSCert)
		}
		if err := change(orderer, &c, fresh); err != nil {
			return err
		}
		if c.Rotate {
			continue // its address stays known
		}
		if err := c.endpoint(orderer); err != nil {
			return err
		}
	}
	return nil
}

// typesWithConsenters are the consensus types whose consenters come and go.
func typesWithConsenters() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(consensusTypes)) {
		if consensusTypes[name].change != nil {
			names = append(names, name)
		}
	}
	return names
}

// changeRaft changes the consenters in the metadata of Raft.
func changeRaft(orderer *commonpb.ConfigGroup, c *ConsenterPatch, fresh *etcdraftpb.Consenter) error {
	var kind ordererpb.ConsensusType
	var metadata etcdraftpb.ConfigMetadata
	if err := get(orderer, keyConsensusType, &kind); err != nil {
		return err
	}
	if err := protoutil.Unmarshal(kind.Metadata, &metadata); err != nil {
		return err
	}
	at := slices.IndexFunc(metadata.Consenters, func(old *etcdraftpb.Consenter) bool { return ConsenterAddress(old) == c.Address })
	if err := c.fits(at >= 0); err != nil {
		return err
	}
	switch {
	case c.Remove:
		metadata.Consenters = slices.Delete(metadata.Consenters, at, at+1)
	case at >= 0:
		metadata.Consenters[at] = fresh
	default:
		metadata.Consenters = append(metadata.Consenters, fresh)
	}
	kind.Metadata = mustMarshal(&metadata)
	set(orderer, keyConsensusType, &kind)
	return nil
}

// fits says why a consenter that is there, or is not, cannot be changed so.
func (c *ConsenterPatch) fits(there bool) error {
	switch {
	case (c.Remove || c.Rotate) && !there:
		return fmt.Errorf("%w: consenter %s: one that the channel has is accepted", ErrInvalid, c.Address)
	case there && !c.Remove && !c.Rotate:
		return fmt.Errorf("%w: consenter %s: the channel has it already (rotate: true gives it other certificates)", ErrInvalid, c.Address)
	}
	return nil
}

// endpoint adds the address to its organisation's, or takes it away.
func (c *ConsenterPatch) endpoint(orderer *commonpb.ConfigGroup) error {
	orgs, err := byMSP(orderer)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(orgs))
	if !c.Remove && c.MSPID == "" && len(names) != 1 {
		return fmt.Errorf("%w: consenter %s: msp_id, one of %v, is missing", ErrInvalid, c.Address, names)
	}
	if c.MSPID != "" {
		if orgs[c.MSPID] == nil {
			return fmt.Errorf("%w: consenter %s: msp_id %q: one of %v is accepted", ErrInvalid, c.Address, c.MSPID, names)
		}
		names = []string{c.MSPID}
	}
	for _, name := range names {
		org := orgs[name]
		fill(org)
		var endpoints commonpb.OrdererAddresses
		if org.Values[keyEndpoints] != nil {
			if err := get(org, keyEndpoints, &endpoints); err != nil {
				return err
			}
		}
		known := slices.Contains(endpoints.Addresses, c.Address)
		if known != c.Remove {
			continue // nothing to do: a removed address belongs to another organisation, a new one is there
		}
		if c.Remove {
			endpoints.Addresses = slices.DeleteFunc(endpoints.Addresses, func(a string) bool { return a == c.Address })
		} else {
			endpoints.Addresses = append(endpoints.Addresses, c.Address)
		}
		set(org, keyEndpoints, &endpoints)
	}
	return nil
}
