package channelconfig

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

const maxGroupDepth = 8

// metaPolicy asks for a number of its sub-policies (Fabric's IMPLICIT_META).
type metaPolicy struct {
	need int
	subs []policy.Evaluator
}

// Evaluate lets every sub-policy look at all identities, as Fabric does.
func (m metaPolicy) Evaluate(ids []*identity.Identity) bool {
	left := m.need
	for _, sub := range m.subs {
		if left <= 0 {
			break
		}
		if sub.Evaluate(ids) {
			left--
		}
	}
	return left <= 0
}

// compilePolicies fills into with the policies of a group and of all below it, by path.
func compilePolicies(into map[string]policy.Evaluator, path string, group *commonpb.ConfigGroup, depth int) error {
	if depth > maxGroupDepth {
		return fmt.Errorf("%s: more than %d levels of groups", path, maxGroupDepth)
	}
	for name, sub := range group.GetGroups() {
		if err := compilePolicies(into, path+"/"+name, sub, depth+1); err != nil {
			return err
		}
	}
	for name, wire := range group.GetPolicies() {
		compiled, err := compilePolicy(into, path, group, wire.GetPolicy())
		if err != nil {
			return fmt.Errorf("policy %s/%s: %w", path, name, err)
		}
		into[path+"/"+name] = compiled
	}
	return nil
}

func compilePolicy(known map[string]policy.Evaluator, path string, group *commonpb.ConfigGroup, wire *commonpb.Policy) (policy.Evaluator, error) {
	switch commonpb.Policy_PolicyType(wire.GetType()) {
	case commonpb.Policy_SIGNATURE:
		var env commonpb.SignaturePolicyEnvelope
		if err := protoutil.Unmarshal(wire.Value, &env); err != nil {
			return nil, err
		}
		return policy.Compile(&env)
	case commonpb.Policy_IMPLICIT_META:
		var meta commonpb.ImplicitMetaPolicy
		if err := protoutil.Unmarshal(wire.Value, &meta); err != nil {
			return nil, err
		}
		out := metaPolicy{}
		for _, name := range sortedGroups(group) {
			sub, ok := known[path+"/"+name+"/"+meta.SubPolicy]
			if !ok {
				sub = metaPolicy{need: 1} // never satisfied
			}
			out.subs = append(out.subs, sub)
		}
		if _, known := commonpb.ImplicitMetaPolicy_Rule_name[int32(meta.Rule)]; !known {
			return nil, fmt.Errorf("unknown rule %d: ANY, ALL and MAJORITY are accepted", meta.Rule)
		}
		out.need = min(needed(meta.Rule, len(out.subs)), len(out.subs))
		return out, nil
	default:
		return nil, fmt.Errorf("unknown type %d: SIGNATURE and IMPLICIT_META are accepted", wire.GetType())
	}
}

// needed is how many of n sub-policies a rule asks for.
func needed(rule commonpb.ImplicitMetaPolicy_Rule, n int) int {
	switch rule {
	case commonpb.ImplicitMetaPolicy_ANY:
		return 1
	case commonpb.ImplicitMetaPolicy_MAJORITY:
		return n/2 + 1
	default:
		return n
	}
}

// layouts lists sufficient sets of signatures. For an implicit meta policy it
// takes each sub-policy's smallest, which is what a channel's default
// ("a majority of the organisations' endorsement policies") needs.
func layouts(p policy.Evaluator) []policy.Layout {
	switch kind := p.(type) {
	case *policy.Policy:
		return kind.Layouts()
	case metaPolicy:
		var options []policy.Layout
		for _, sub := range kind.subs {
			if found := layouts(sub); len(found) > 0 {
				options = append(options, found[0])
			}
		}
		return policy.Choose(kind.need, options)
	}
	return nil
}

// organisations are those that a policy names, sorted.
func organisations(p policy.Evaluator) []string {
	switch kind := p.(type) {
	case *policy.Policy:
		return kind.Organisations()
	case metaPolicy:
		var found []string
		for _, sub := range kind.subs {
			found = append(found, organisations(sub)...)
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	return nil
}

func sortedGroups(group *commonpb.ConfigGroup) []string {
	names := make([]string, 0, len(group.GetGroups()))
	for name := range group.GetGroups() {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// get decodes a value that must be there.
func get(group *commonpb.ConfigGroup, key string, into proto.Message) error {
	value := group.GetValues()[key]
	if value == nil {
		return fmt.Errorf("value %s is missing", key)
	}
	if err := protoutil.Unmarshal(value.Value, into); err != nil {
		return fmt.Errorf("value %s: %w", key, err)
	}
	return nil
}

func positiveDuration(key, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s %q: a duration above 0, for example 100ms, is accepted", key, text)
	}
	return d, nil
}
