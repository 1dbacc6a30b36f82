package channelconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// policies refuses those that nobody could satisfy, and new ones that nothing would ask for. Those of deeper groups are
// first: a rule counts the sub-policies below it.
func (p *Patch) policies(root *commonpb.ConfigGroup) error {
	orgs := map[string]bool{}
	for _, group := range []*commonpb.ConfigGroup{root.Groups[applicationGroup], root.Groups[ordererGroup]} {
		known, err := byMSP(group)
		if err != nil {
			return err
		}
		for mspID := range known {
			orgs[mspID] = true
		}
	}
	deeperFirst := func(a, b string) int {
		return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(a, b))
	}
	for _, path := range slices.SortedFunc(maps.Keys(p.Policies), deeperFirst) {
		names := strings.Split(strings.TrimPrefix(path, rootPath+"/"), "/")
		group := root
		var above *commonpb.ConfigGroup
		for _, name := range names[:len(names)-1] {
			above, group = group, group.GetGroups()[name]
		}
		if group == nil || !strings.HasPrefix(path, rootPath+"/") {
			return fmt.Errorf("%w: policy %q: the path of a group and a name are accepted, such as %s", ErrInvalid, path, ChannelWriters)
		}
		name := names[len(names)-1]
		fill(group)
		if group.Policies[name] == nil && !p.asked(above, names) {
			return fmt.Errorf("%w: policy %q: the group has %s: one of these, or one that a rule above is about or a group beside it has, is accepted",
				ErrInvalid, path, listed(group.Policies))
		}
		if rule, sub, ok := strings.Cut(p.Policies[path], " "); ok && isRule(rule) {
			kind := commonpb.ImplicitMetaPolicy_Rule(commonpb.ImplicitMetaPolicy_Rule_value[rule])
			if err := checkSub(group, sub, kind); err != nil {
				return fmt.Errorf("%w: policy %s: %w", ErrInvalid, path, err)
			}
			setMeta(group, name, sub, kind)
			continue
		}
		parsed, err := policy.Parse(p.Policies[path])
		if err == nil {
			err = policy.CheckOrganisations(parsed, slices.Sorted(maps.Keys(orgs)))
		}
		if err != nil {
			return fmt.Errorf("%w: policy %s: %w", ErrInvalid, path, err)
		}
		setPolicy(group, name, commonpb.Policy_SIGNATURE, parsed)
	}
	return nil
}

// asked reports whether a new policy has a use: a rule of the group above is about its name, in force or in the patch, so
// that it counts as one that nobody satisfies until it is there; or a group beside it has one of that name.
func (p *Patch) asked(above *commonpb.ConfigGroup, names []string) bool {
	if above == nil {
		return false
	}
	depth, name := len(names)-2, names[len(names)-1]
	prefix := strings.Join(append([]string{rootPath}, names[:depth]...), "/") + "/"
	for path, text := range p.Policies {
		of, isAbove := strings.CutPrefix(path, prefix)
		rule, sub, _ := strings.Cut(text, " ")
		if isAbove && !strings.Contains(of, "/") && isRule(rule) && sub == name {
			return true
		}
	}
	for _, wire := range above.GetPolicies() {
		var meta commonpb.ImplicitMetaPolicy
		if wire.GetPolicy().GetType() == int32(commonpb.Policy_IMPLICIT_META) && protoutil.Unmarshal(wire.Policy.Value, &meta) == nil && meta.SubPolicy == name {
			return true
		}
	}
	for _, beside := range above.GetGroups() {
		if beside.GetPolicies()[name] != nil {
			return true
		}
	}
	return false
}

func isRule(word string) bool {
	_, ok := commonpb.ImplicitMetaPolicy_Rule_value[word]
	return ok
}

func listed(policies map[string]*commonpb.ConfigPolicy) string {
	return strings.Join(slices.Sorted(maps.Keys(policies)), ", ")
}

// checkSub refuses a rule about a sub-policy that fewer of the groups below have than the rule needs.
func checkSub(group *commonpb.ConfigGroup, sub string, rule commonpb.ImplicitMetaPolicy_Rule) error {
	below := map[string]*commonpb.ConfigPolicy{}
	have := 0
	for _, g := range group.Groups {
		maps.Copy(below, g.Policies)
		if g.Policies[sub] != nil {
			have++
		}
	}
	if len(group.Groups) == 0 {
		return fmt.Errorf("%s %s is of groups below, of which there are none: a signature policy is accepted", rule, sub)
	}
	if need := needed(rule, len(group.Groups)); have < need {
		return fmt.Errorf("%s %s: %d of the groups below have that policy, and it needs %d: of %s, one that as many have is accepted",
			rule, sub, have, need, listed(below))
	}
	return nil
}
