package channelconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// policies refuses those that nobody could satisfy, and new ones, which nothing would ask for.
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
	for _, path := range slices.Sorted(maps.Keys(p.Policies)) {
		names := strings.Split(strings.TrimPrefix(path, rootPath+"/"), "/")
		group := root
		for _, name := range names[:len(names)-1] {
			group = group.GetGroups()[name]
		}
		if group == nil || !strings.HasPrefix(path, rootPath+"/") {
			return fmt.Errorf("%w: policy %q: the path of a group and a name are accepted, such as %s", ErrInvalid, path, ChannelWriters)
		}
		name := names[len(names)-1]
		if group.Policies[name] == nil {
			return fmt.Errorf("%w: policy %q: the group has %s, and one of these is accepted", ErrInvalid, path, listed(group.Policies))
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
