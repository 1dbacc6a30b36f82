package channelconfig

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// ErrUnauthorized is wrapped by the refusal of an update whose signers do not satisfy the policies.
var ErrUnauthorized = errors.New("not authorized")

// maxUpdateSignatures bounds what one update can make a node verify.
const maxUpdateSignatures = 64

// Next checks a configuration transaction against this version, and decodes it: an orderer
// signed it, it is the next in sequence, and it is what an update, signed by those whom the
// changed elements' policies name, makes of this version. The answer follows from the
// transaction and this version alone, so that every orderer and every peer decides alike.
func (b *Bundle) Next(msg *protoutil.Message) (*Bundle, error) {
	next, err := FromMessage(msg)
	if err != nil {
		return nil, err
	}
	// What a peer asks of every transaction: without it the orderers would be at a configuration that no peer takes.
	if !msg.HasNonce() || msg.Channel.ChannelId != b.ChannelID {
		return nil, fmt.Errorf("%w: for channel %q, or without nonce: this is %q", ErrInvalid, msg.Channel.ChannelId, b.ChannelID)
	}
	at := msg.Channel.GetTimestamp().AsTime()
	orderer, err := b.MSP.DeserializeAt(msg.Signature.Creator, at)
	if err == nil {
		err = orderer.Verify(msg.Envelope.Payload, msg.Envelope.Signature)
	}
	if err == nil && !b.isOrderer(orderer) {
		err = fmt.Errorf("%s of %s is no orderer", orderer.Cert.Subject.CommonName, orderer.MSPID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its creator: %w", ErrInvalid, err)
	}
	var wire commonpb.ConfigEnvelope
	if err := protoutil.Unmarshal(msg.Data, &wire); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if next.Sequence != b.Sequence+1 {
		return nil, fmt.Errorf("%w: configuration %d does not follow %d", ErrInvalid, next.Sequence, b.Sequence)
	}
	update, err := protoutil.OpenEnvelope(wire.GetLastUpdate())
	if err != nil {
		return nil, fmt.Errorf("%w: its update: %w", ErrInvalid, err)
	}
	want, err := b.Updated(update, at)
	if err != nil {
		return nil, err
	}
	if !proto.Equal(want, wire.Config) {
		return nil, fmt.Errorf("%w: configuration %d is not what its update makes of %d", ErrInvalid, next.Sequence, b.Sequence)
	}
	return next, nil
}

// Updated is the configuration that an update (an envelope of type CONFIG_UPDATE) makes of
// this one. It errs when the update is out of date, not signed by members that may do it at
// that time, or when what comes out is no valid configuration.
func (b *Bundle) Updated(msg *protoutil.Message, at time.Time) (*commonpb.Config, error) {
	if kind := commonpb.HeaderType(msg.Channel.Type); kind != commonpb.HeaderType_CONFIG_UPDATE {
		return nil, fmt.Errorf("%w: header type %s, CONFIG_UPDATE is accepted", ErrInvalid, kind)
	}
	var signed commonpb.ConfigUpdateEnvelope
	var update commonpb.ConfigUpdate
	if err := protoutil.Unmarshal(msg.Data, &signed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := protoutil.Unmarshal(signed.ConfigUpdate, &update); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if update.ChannelId != b.ChannelID || msg.Channel.ChannelId != b.ChannelID {
		return nil, fmt.Errorf("%w: an update of channel %q, this is %q", ErrInvalid, update.ChannelId, b.ChannelID)
	}
	root := b.Config.GetChannelGroup()
	if err := isRead(rootPath, root, update.ReadSet); err != nil {
		return nil, err
	}
	m := merge{needed: map[string]string{}}
	group, err := m.group(rootPath, root, update.WriteSet, 0)
	if err != nil {
		return nil, err
	}
	if len(m.needed) == 0 {
		return nil, fmt.Errorf("%w: the update changes nothing", ErrInvalid)
	}
	ids := b.updateSigners(&signed, at)
	for element, path := range m.needed {
		if !b.Policy(path).Evaluate(ids) {
			return nil, fmt.Errorf("%w: %w: %s: its %d valid signature(s) do not satisfy %s", ErrInvalid, ErrUnauthorized, element, len(ids), path)
		}
	}
	config := &commonpb.Config{Sequence: b.Sequence + 1, ChannelGroup: group}
	next, err := FromConfig(b.ChannelID, config)
	if err != nil {
		return nil, err
	}
	return config, b.mayBecome(next, at)
}

// mayBecome refuses what the nodes of a channel cannot do while it runs.
func (b *Bundle) mayBecome(next *Bundle, at time.Time) error {
	if b.Orderer.ConsensusType != next.Orderer.ConsensusType {
		return fmt.Errorf("%w: the consensus type of a channel stays as it is", ErrInvalid)
	}
	if _, _, err := FirstMembership(b.Orderer.Consenters).Become(&b.Orderer, &next.Orderer); err != nil {
		return err
	}
	if err := b.checkReachable(next); err != nil {
		return err
	}
	return b.checkConsenters(next, at)
}

// checkReachable refuses a configuration under which peers find no orderer: they would hear of no later one. Where that
// is so already, other updates go on.
func (b *Bundle) checkReachable(next *Bundle) error {
	now, then := &b.Orderer, &next.Orderer
	if len(then.Addresses) == 0 && len(now.Addresses) > 0 {
		return fmt.Errorf("%w: Endpoints of the orderers' organisations: at least one host:port is accepted", ErrInvalid)
	}
	if none := x509.NewCertPool(); then.TLSRoots.Equal(none) && !now.TLSRoots.Equal(none) {
		return fmt.Errorf("%w: tls_root_certs of the orderers' organisations: at least one is accepted", ErrInvalid)
	}
	return nil
}

// isOrderer reports whether it may make a configuration of an update, which all check again. Blocks of consenters of which
// some may lie need many signatures, configurations one.
func (b *Bundle) isOrderer(id *identity.Identity) bool {
	name := BlockValidation
	if len(b.Orderer.Numbers) > 0 {
		name = ordererWriters
	}
	return b.Policy(name).Evaluate([]*identity.Identity{id})
}

// updateSigners are those whose signature of the update holds.
func (b *Bundle) updateSigners(signed *commonpb.ConfigUpdateEnvelope, at time.Time) (ids []*identity.Identity) {
	if len(signed.Signatures) > maxUpdateSignatures {
		return nil
	}
	for _, s := range signed.Signatures {
		var header commonpb.SignatureHeader
		if protoutil.Unmarshal(s.GetSignatureHeader(), &header) != nil {
			continue
		}
		id, err := b.MSP.DeserializeAt(header.Creator, at)
		if err != nil {
			continue
		}
		if id.Verify(append(append([]byte{}, s.SignatureHeader...), signed.ConfigUpdate...), s.Signature) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

const rootPath = "/Channel"

// isRead checks that the elements that an update was made from have not changed since.
func isRead(path string, now, read *commonpb.ConfigGroup) error {
	stale := func(element string, now, then uint64) error {
		return fmt.Errorf("%w: the update was made from version %d of %s, which is at %d", ErrInvalid, then, element, now)
	}
	missing := func(element string) error {
		return fmt.Errorf("%w: the update was made from %s, which does not exist", ErrInvalid, element)
	}
	if now.GetVersion() != read.GetVersion() {
		return stale(path, now.GetVersion(), read.GetVersion())
	}
	for name, v := range read.GetValues() {
		found := now.GetValues()[name]
		if found == nil {
			return missing(path + "/" + name)
		}
		if found.Version != v.GetVersion() {
			return stale(path+"/"+name, found.Version, v.GetVersion())
		}
	}
	for name, p := range read.GetPolicies() {
		found := now.GetPolicies()[name]
		if found == nil {
			return missing(path + "/" + name)
		}
		if found.Version != p.GetVersion() {
			return stale(path+"/"+name, found.Version, p.GetVersion())
		}
	}
	for name, g := range read.GetGroups() {
		found := now.GetGroups()[name]
		if found == nil {
			return missing(path + "/" + name)
		}
		if err := isRead(path+"/"+name, found, g); err != nil {
			return err
		}
	}
	return nil
}

// merge puts a write set over a configuration by Fabric's rules: an element is changed by
// one that has the next version; a group of the next version has the members that it names
// and no others; a new element has version 0. The policy that each changed element asks
// for is collected by the element's path.
type merge struct{ needed map[string]string }

func (m *merge) change(element, groupPath, modPolicy string) {
	switch {
	case modPolicy == "":
		m.needed[element] = groupPath + "/" // no such policy: the change is refused
	case strings.HasPrefix(modPolicy, "/"):
		m.needed[element] = modPolicy
	default:
		m.needed[element] = groupPath + "/" + modPolicy
	}
}

func (m *merge) group(path string, now, write *commonpb.ConfigGroup, depth int) (*commonpb.ConfigGroup, error) {
	if depth > maxGroupDepth {
		return nil, fmt.Errorf("%w: %s: more than %d levels of groups", ErrInvalid, path, maxGroupDepth)
	}
	out := newGroup()
	changes := write.GetVersion() == now.GetVersion()+1
	switch {
	case now == nil && write.GetVersion() == 0:
		out.ModPolicy = write.GetModPolicy()
		now = newGroup()
		changes = true
	case now == nil, !changes && write.GetVersion() != now.Version:
		return nil, wrongVersion(path, now.GetVersion(), write.GetVersion())
	case changes:
		m.change(path, path, now.ModPolicy)
		out.Version, out.ModPolicy = write.Version, write.ModPolicy
	default: // what the update does not name stays
		out = proto.Clone(now).(*commonpb.ConfigGroup)
		fill(out)
	}
	for name, v := range write.GetValues() {
		old := now.Values[name]
		if err := m.element(path, name, v.GetVersion(), old != nil, old.GetVersion(), old.GetModPolicy(), changes); err != nil {
			return nil, err
		}
		if out.Values[name] = v; old != nil && v.GetVersion() == old.Version {
			if len(v.GetValue()) > 0 && !bytes.Equal(v.Value, old.Value) {
				return nil, otherContent(path+"/"+name, old.Version)
			}
			out.Values[name] = old
		}
	}
	for name, p := range write.GetPolicies() {
		old := now.Policies[name]
		if err := m.element(path, name, p.GetVersion(), old != nil, old.GetVersion(), old.GetModPolicy(), changes); err != nil {
			return nil, err
		}
		if out.Policies[name] = p; old != nil && p.GetVersion() == old.Version {
			if p.GetPolicy() != nil && !proto.Equal(p.Policy, old.Policy) {
				return nil, otherContent(path+"/"+name, old.Version)
			}
			out.Policies[name] = old
		}
	}
	for name, g := range write.GetGroups() {
		old := now.Groups[name]
		if old == nil && !changes {
			return nil, unannounced(path, name)
		}
		merged, err := m.group(path+"/"+name, old, g, depth+1)
		if err != nil {
			return nil, err
		}
		out.Groups[name] = merged
	}
	return out, nil
}

// fill makes an empty map of each that is not there.
func fill(group *commonpb.ConfigGroup) {
	empty := newGroup()
	if group.Groups == nil {
		group.Groups = empty.Groups
	}
	if group.Values == nil {
		group.Values = empty.Values
	}
	if group.Policies == nil {
		group.Policies = empty.Policies
	}
}

// element checks one value or policy of a write set.
func (m *merge) element(path, name string, version uint64, exists bool, now uint64, modPolicy string, groupChanges bool) error {
	switch {
	case !exists && !groupChanges:
		return unannounced(path, name)
	case !exists && version == 0, exists && version == now:
		return nil
	case exists && version == now+1:
		m.change(path+"/"+name, path, modPolicy)
		return nil
	}
	return wrongVersion(path+"/"+name, now, version)
}

func wrongVersion(element string, now, wanted uint64) error {
	return fmt.Errorf("%w: %s is at version %d, the update sets version %d", ErrInvalid, element, now, wanted)
}

// otherContent says that another update has changed an element since this one was made.
func otherContent(element string, version uint64) error {
	return fmt.Errorf("%w: the update sets version %d of %s, which exists and says something else", ErrInvalid, version, element)
}

func unannounced(path, name string) error {
	return fmt.Errorf("%w: %s/%s is new, but the version of %s stays", ErrInvalid, path, name, path)
}
