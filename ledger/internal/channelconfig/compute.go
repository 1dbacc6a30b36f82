package channelconfig

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// NewUpdate is the update that turns one configuration into another, without signatures yet.
// Versions in `to` do not matter: they follow from what differs.
func NewUpdate(channelID string, from, to *commonpb.Config) (*commonpb.ConfigUpdateEnvelope, error) {
	read, write, changed := difference(from.GetChannelGroup(), to.GetChannelGroup())
	if !changed {
		return nil, fmt.Errorf("%w: nothing is changed", ErrInvalid)
	}
	return &commonpb.ConfigUpdateEnvelope{
		ConfigUpdate: mustMarshal(&commonpb.ConfigUpdate{ChannelId: channelID, ReadSet: read, WriteSet: write}),
	}, nil
}

// SignUpdate adds a signature to an update.
func SignUpdate(update *commonpb.ConfigUpdateEnvelope, signer protoutil.Signer) error {
	nonce, err := protoutil.NewNonce()
	if err != nil {
		return err
	}
	header := mustMarshal(&commonpb.SignatureHeader{Creator: signer.Serialized(), Nonce: nonce})
	signature, err := signer.Sign(append(append([]byte{}, header...), update.ConfigUpdate...))
	if err != nil {
		return err
	}
	update.Signatures = append(update.Signatures, &commonpb.ConfigSignature{SignatureHeader: header, Signature: signature})
	return nil
}

// NewConfigTransaction is the transaction by which an orderer brings an update about.
func NewConfigTransaction(config *commonpb.Config, update *commonpb.Envelope, channelID string, orderer protoutil.Signer) (*commonpb.Envelope, error) {
	data := mustMarshal(&commonpb.ConfigEnvelope{Config: config, LastUpdate: update})
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_CONFIG, channelID, orderer, nil, data)
	return env, err
}

// difference gives the read and write set between two versions of a group.
func difference(from, to *commonpb.ConfigGroup) (read, write *commonpb.ConfigGroup, changed bool) {
	read, write = newGroup(), newGroup()
	read.Version, write.Version = from.Version, from.Version
	read.ModPolicy, write.ModPolicy = "", ""
	members := from.ModPolicy != to.ModPolicy || !sameNames(from.Groups, to.Groups) || !sameNames(from.Values, to.Values) || !sameNames(from.Policies, to.Policies)
	changed = members
	for name, v := range to.Values {
		old := from.Values[name]
		switch {
		case old == nil:
			write.Values[name] = &commonpb.ConfigValue{Value: v.Value, ModPolicy: v.ModPolicy}
		case string(old.Value) != string(v.Value) || old.ModPolicy != v.ModPolicy:
			write.Values[name] = &commonpb.ConfigValue{Version: old.Version + 1, Value: v.Value, ModPolicy: v.ModPolicy}
			changed = true
		case members:
			read.Values[name] = &commonpb.ConfigValue{Version: old.Version}
			write.Values[name] = &commonpb.ConfigValue{Version: old.Version}
		}
	}
	for name, p := range to.Policies {
		old := from.Policies[name]
		switch {
		case old == nil:
			write.Policies[name] = &commonpb.ConfigPolicy{Policy: p.Policy, ModPolicy: p.ModPolicy}
		case !proto.Equal(old.Policy, p.Policy) || old.ModPolicy != p.ModPolicy:
			write.Policies[name] = &commonpb.ConfigPolicy{Version: old.Version + 1, Policy: p.Policy, ModPolicy: p.ModPolicy}
			changed = true
		case members:
			read.Policies[name] = &commonpb.ConfigPolicy{Version: old.Version}
			write.Policies[name] = &commonpb.ConfigPolicy{Version: old.Version}
		}
	}
	for name, g := range to.Groups {
		old := from.Groups[name]
		if old == nil {
			write.Groups[name] = asNew(g)
			continue
		}
		r, w, differs := difference(old, g)
		if differs || members {
			read.Groups[name], write.Groups[name] = r, w
		}
		changed = changed || differs
	}
	if members {
		write.Version, write.ModPolicy = from.Version+1, to.ModPolicy
	}
	return read, write, changed
}

// asNew is a group with all versions at 0.
func asNew(group *commonpb.ConfigGroup) *commonpb.ConfigGroup {
	out := newGroup()
	out.ModPolicy = group.ModPolicy
	for name, v := range group.Values {
		out.Values[name] = &commonpb.ConfigValue{Value: v.Value, ModPolicy: v.ModPolicy}
	}
	for name, p := range group.Policies {
		out.Policies[name] = &commonpb.ConfigPolicy{Policy: p.Policy, ModPolicy: p.ModPolicy}
	}
	for name, g := range group.Groups {
		out.Groups[name] = asNew(g)
	}
	return out
}

func sameNames[V any](a, b map[string]V) bool {
	for name := range a {
		if _, ok := b[name]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}
