package nodeconfig

import (
	"net"
	"path/filepath"

	"github.com/qioi/qioi/ledger/internal/problems"
)

// validate returns every problem of a configuration for a node of that role.
func (c *Config) validate(role string) error {
	var found problems.List
	found.If(c.Role != role, "role %q: %q is accepted here", c.Role, role)
	for _, required := range []struct{ key, value string }{
		{"name", c.Name}, {"msp_id", c.MSPID}, {"identity.cert", c.Identity.Cert}, {"identity.key", c.Identity.Key}, {"data", c.Data},
	} {
		found.If(required.value == "", "%s is missing", required.key)
	}
	found.If(c.VerifyWorkers < 0, "verify_workers %d: 0, for one a thread, or more is accepted", c.VerifyWorkers)
	found.If(c.CheckpointInterval < 0, "checkpoint_interval %d: 0, for 50000 transactions, or more is accepted", c.CheckpointInterval)
	found.If(c.WireGap < 0 || c.WireGap > MaxWireGap, "wire_gap %s: 0s, for none, to %s is accepted", c.WireGap, MaxWireGap)
	found.If(c.Processors < 0, "processors %d: 0, for all of the host's, or more is accepted", c.Processors)
	found.If(c.TLS.Enabled && (c.TLS.Cert == "" || c.TLS.Key == ""), "tls.cert or tls.key is missing; both, or tls.enabled: false, are accepted")
	address := func(key, value string) {
		_, _, err := net.SplitHostPort(value)
		found.If(err != nil, "%s %q: host:port is accepted", key, value)
	}
	address("listen", c.Listen)
	address("operations.listen", c.Operations.Listen)
	if c.Address != "" {
		address("address", c.Address)
	}
	for _, cc := range c.Chaincodes {
		if cc.Connection == "" {
			address("chaincodes."+cc.Name+".address", cc.Address)
		}
		found.If(cc.Connection != "" && cc.Address != "", "chaincodes.%s: address or connection, one of them, is accepted", cc.Name)
	}
	found.If(len(c.Channels) == 0, "channels: at least one is accepted")
	seen := map[string]bool{}
	for _, ch := range c.Channels {
		found.If(ch.Name == "" || ch.Genesis == "" || seen[ch.Name] || filepath.Base(ch.Name) != ch.Name,
			"channels: %q: a unique name without slashes and a genesis file are accepted", ch.Name)
		seen[ch.Name] = true
	}
	return found.Err()
}
