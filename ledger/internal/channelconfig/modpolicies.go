package channelconfig

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// policyName is what Fabric takes for a name, but for "." and "..".
var policyName = regexp.MustCompile(`^[a-zA-Z0-9.-]{1,249}$`)

// element is a group, a value or a policy.
type element interface {
	GetVersion() uint64
	GetModPolicy() string
}

// CheckModPolicies refuses what is new or changed and names no policy: nobody could change it again. Fabric asks the same.
// Like CheckACLs it is for clients' updates alone.
func (b *Bundle) CheckModPolicies(next *commonpb.Config) error {
	return checkModPolicies(rootPath, b.Config.GetChannelGroup(), next.GetChannelGroup())
}

func checkModPolicies(path string, now, next *commonpb.ConfigGroup) error {
	if err := checkModPolicy(path, now != nil, now, next); err != nil {
		return err
	}
	for name, v := range next.GetValues() {
		old, exists := now.GetValues()[name]
		if err := checkModPolicy(path+"/"+name, exists, old, v); err != nil {
			return err
		}
	}
	for name, p := range next.GetPolicies() {
		old, exists := now.GetPolicies()[name]
		if err := checkModPolicy(path+"/"+name, exists, old, p); err != nil {
			return err
		}
	}
	for name, g := range next.GetGroups() {
		if err := checkModPolicies(path+"/"+name, now.GetGroups()[name], g); err != nil {
			return err
		}
	}
	return nil
}

func checkModPolicy(path string, exists bool, now, next element) error {
	if exists && now.GetVersion() == next.GetVersion() || isPolicyPath(next.GetModPolicy()) {
		return nil
	}
	return fmt.Errorf("%w: mod_policy %q of %s: the name of a policy, or its path, is accepted", ErrInvalid, next.GetModPolicy(), path)
}

// isPolicyPath reports whether that is a policy's name, or a path to one.
func isPolicyPath(path string) bool {
	for _, name := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if name == "." || name == ".." || !policyName.MatchString(name) {
			return false
		}
	}
	return true
}
