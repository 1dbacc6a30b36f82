package channelconfig

import (
	"fmt"
	"regexp"
	"slices"
)

// Fabric's system chaincodes, as far as a peer here answers for them (package syscc).
const (
	LedgerQueries  = "qscc"
	ChannelQueries = "cscc"
	Lifecycle      = "_lifecycle"
	// LegacyLifecycle is that of Fabric 1.4, for which `peer chaincode list` still asks.
	LegacyLifecycle = "lscc"
)

// IsSystemChaincode reports whether a chaincode is part of every peer rather than defined on a channel.
func IsSystemChaincode(name string) bool {
	return name == LedgerQueries || name == ChannelQueries || name == Lifecycle || name == LegacyLifecycle
}

// Fabric's rules for names and versions, and the names that it keeps for itself.
var (
	chaincodeName    = regexp.MustCompile(`^[a-zA-Z0-9]+([-_][a-zA-Z0-9]+)*$`)
	chaincodeVersion = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	reserved         = []string{ChannelQueries, "escc", LegacyLifecycle, LedgerQueries, "vscc"}
)

// CheckChaincodeName refuses what Fabric does not accept as the name of a chaincode.
func CheckChaincodeName(name string) error {
	if slices.Contains(reserved, name) {
		return fmt.Errorf("%q is the name of a system chaincode", name)
	}
	if !chaincodeName.MatchString(name) {
		return fmt.Errorf("name %q: letters and digits, with single - or _ between them, are accepted", name)
	}
	return nil
}

func checkChaincodeVersion(version string) error {
	if !chaincodeVersion.MatchString(version) {
		return fmt.Errorf("version %q: letters, digits and _.+- are accepted", version)
	}
	return nil
}
