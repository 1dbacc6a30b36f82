package channelconfig

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
	"github.com/qioi/qioi/ledger/pb/msppb"
	"github.com/qioi/qioi/ledger/pb/smartbftpb"
)

// BFTOptions are the settings of consenters of which some may lie.
type BFTOptions struct {
	// ViewChangeTimeout is how long the oldest transaction may wait for the leader; 2 s is suggested, Fabric has 20.
	ViewChangeTimeout time.Duration
	// BatchTxs and BatchBytes bound what is proposed at once; 512 and 1 MiB are suggested.
	BatchTxs   int
	BatchBytes int
}

// MaxBFT is how many consenters a channel has of which some may lie: their certificates have no more signatures.
const MaxBFT = 64

// defaults are what NewGenesis writes.
var bftDefaults = smartbftpb.Options{RequestBatchMaxCount: 512, RequestBatchMaxBytes: 1 << 20, ViewChangeTimeout: "2s"}

// Quorum is how many of n consenters decide, of which (n-1)/3 may lie: any two quorums have a correct one in common. Fabric
// computes it alike.
func Quorum(n int) int { return (n+Liars(n))/2 + 1 }

// Liars is how many of n consenters may do anything at all.
func Liars(n int) int { return (n - 1) / 3 }

func decodeBFT(o *Orderer, group *commonpb.ConfigGroup, metadata []byte) error {
	var orderers commonpb.Orderers
	if err := get(group, keyOrderers, &orderers); err != nil {
		return err
	}
	if n := len(orderers.ConsenterMapping); n == 0 || n > MaxBFT {
		return fmt.Errorf("%s: %d consenters: 1 to %d are accepted", keyOrderers, n, MaxBFT)
	}
	var opts smartbftpb.Options
	if err := protoutil.Unmarshal(metadata, &opts); err != nil {
		return err
	}
	timeout, err := positiveDuration("view_change_timeout", opts.ViewChangeTimeout)
	if err != nil {
		return err
	}
	if opts.RequestBatchMaxCount == 0 || opts.RequestBatchMaxBytes == 0 || opts.RequestBatchMaxCount > 1<<20 || opts.RequestBatchMaxBytes > 1<<30 {
		return fmt.Errorf("request_batch_max_count %d, request_batch_max_bytes %d: values above 0 are accepted", opts.RequestBatchMaxCount, opts.RequestBatchMaxBytes)
	}
	o.BFT = BFTOptions{ViewChangeTimeout: timeout, BatchTxs: int(opts.RequestBatchMaxCount), BatchBytes: int(opts.RequestBatchMaxBytes)}
	o.Identities = map[uint32][]byte{}
	for _, c := range orderers.ConsenterMapping {
		if o.Identities[c.Id] != nil || c.Id == 0 {
			return fmt.Errorf("%s: consenter %d: distinct numbers above 0 are accepted", keyOrderers, c.Id)
		}
		o.Numbers = append(o.Numbers, c.Id)
		o.Identities[c.Id] = mustMarshal(&msppb.SerializedIdentity{Mspid: c.MspId, IdBytes: c.Identity})
		o.Consenters = append(o.Consenters, &etcdraftpb.Consenter{Host: c.Host, Port: c.Port, ClientTlsCert: c.ClientTlsCert, ServerTlsCert: c.ServerTlsCert})
	}
	return nil
}

func encodeBFT(g *Genesis, group *commonpb.ConfigGroup) []byte {
	orderers := &commonpb.Orderers{}
	for i, c := range g.Consenters {
		orderers.ConsenterMapping = append(orderers.ConsenterMapping, &commonpb.Consenter{
			Id: uint32(i) + 1, Host: c.Host, Port: c.Port, ClientTlsCert: c.ClientTlsCert, ServerTlsCert: c.ServerTlsCert,
			MspId: g.Identities[i].MSPID, Identity: g.Identities[i].Cert,
		})
	}
	set(group, keyOrderers, orderers)
	return mustMarshal(&bftDefaults)
}

// changeBFT adds, removes or changes a consenter, and has the policy for blocks name those that there are then.
func changeBFT(orderer *commonpb.ConfigGroup, c *ConsenterPatch, fresh *etcdraftpb.Consenter) error {
	var orderers commonpb.Orderers
	if err := get(orderer, keyOrderers, &orderers); err != nil {
		return err
	}
	all := orderers.ConsenterMapping
	at := slices.IndexFunc(all, func(old *commonpb.Consenter) bool { return old.Host == fresh.Host && old.Port == fresh.Port })
	if err := c.fits(at >= 0); err != nil {
		return err
	}
	last := uint32(0)
	for _, old := range all {
		last = max(last, old.Id)
	}
	next := &commonpb.Consenter{
		Id: last + 1, Host: fresh.Host, Port: fresh.Port, ClientTlsCert: fresh.ClientTlsCert, ServerTlsCert: fresh.ServerTlsCert,
		MspId: c.MSPID, Identity: []byte(c.Identity),
	}
	switch {
	case c.Remove:
		all = slices.Delete(all, at, at+1)
	case at >= 0:
		next.Id, next.MspId = all[at].Id, all[at].MspId
		if c.Identity == "" {
			next.Identity = all[at].Identity
		}
		all[at] = next
	default:
		orgs, err := byMSP(orderer)
		if err != nil {
			return err
		}
		if next.MspId == "" && len(orgs) == 1 {
			next.MspId = slices.Collect(maps.Keys(orgs))[0]
		}
		if c.Identity == "" {
			return fmt.Errorf("%w: consenter %s: identity, the certificate that it signs with, is missing", ErrInvalid, c.Address)
		}
		all = append(all, next)
	}
	var identities []GenesisIdentity
	for _, one := range all {
		identities = append(identities, GenesisIdentity{MSPID: one.MspId, Cert: one.Identity})
	}
	set(orderer, keyOrderers, &commonpb.Orderers{ConsenterMapping: all})
	setPolicy(orderer, policyBlocks, commonpb.Policy_SIGNATURE, quorumOf(identities))
	return nil
}

// quorumOfConsenters is Fabric's policy for the blocks of consenters of which some may lie: a quorum of them, each named by
// its certificate.
func quorumOfConsenters(g *Genesis) *commonpb.SignaturePolicyEnvelope { return quorumOf(g.Identities) }

func quorumOf(identities []GenesisIdentity) *commonpb.SignaturePolicyEnvelope {
	out := &commonpb.SignaturePolicy_NOutOf{N: int32(Quorum(len(identities)))}
	env := &commonpb.SignaturePolicyEnvelope{Rule: &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_NOutOf_{NOutOf: out}}}
	for i, id := range identities {
		out.Rules = append(out.Rules, &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_SignedBy{SignedBy: int32(i)}})
		env.Identities = append(env.Identities, &commonpb.MSPPrincipal{
			PrincipalClassification: commonpb.MSPPrincipal_IDENTITY,
			Principal:               mustMarshal(&msppb.SerializedIdentity{Mspid: id.MSPID, IdBytes: id.Cert}),
		})
	}
	return env
}
