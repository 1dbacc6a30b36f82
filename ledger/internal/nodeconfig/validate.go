package nodeconfig

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// validate returns every problem of a configuration for a node of that role.
func (c *Config) validate(role string) error {
	var problems []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Role != role, "role %q: %q is accepted here", c.Role, role)
	for _, required := range []struct{ key, value string }{
		{"name", c.Name}, {"msp_id", c.MSPID}, {"identity.cert", c.Identity.Cert}, {"identity.key", c.Identity.Key}, {"data", c.Data},
	} {
		refuse(required.value == "", "%s is missing", required.key)
	}
	refuse(c.VerifyWorkers < 0, "verify_workers %d: 0, for one a thread, or more is accepted", c.VerifyWorkers)
	refuse(c.CheckpointInterval < 0, "checkpoint_interval %d: 0, for 50000 transactions, or more is accepted", c.CheckpointInterval)
	refuse(c.WireGap < 0 || c.WireGap > MaxWireGap, "wire_gap %s: 0s, for none, to %s is accepted", c.WireGap, MaxWireGap)
	refuse(c.Processors < 0, "processors %d: 0, for all of the host's, or more is accepted", c.Processors)
	refuse(c.TLS.Enabled && (c.TLS.Cert == "" || c.TLS.Key == ""), "tls.cert or tls.key is missing; both, or tls.enabled: false, are accepted")
	address := func(key, value string) {
		_, _, err := net.SplitHostPort(value)
		refuse(err != nil, "%s %q: host:port is accepted", key, value)
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
		refuse(cc.Connection != "" && cc.Address != "", "chaincodes.%s: address or connection, one of them, is accepted", cc.Name)
	}
	refuse(len(c.Channels) == 0, "channels: at least one is accepted")
	seen := map[string]bool{}
	for _, ch := range c.Channels {
		refuse(ch.Name == "" || ch.Genesis == "" || seen[ch.Name] || filepath.Base(ch.Name) != ch.Name,
			"channels: %q: a unique name without slashes and a genesis file are accepted", ch.Name)
		seen[ch.Name] = true
	}
	return errors.Join(problems...)
}
