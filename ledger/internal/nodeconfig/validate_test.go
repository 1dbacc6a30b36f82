package nodeconfig

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sound() *Config {
	return &Config{
		Name: "peer0", Role: RolePeer, MSPID: "Org1MSP", Listen: "127.0.0.1:1", Operations: Operations{Listen: "127.0.0.1:2"},
		Identity: KeyPair{Cert: "c", Key: "k"}, Data: "data", Channels: []Channel{{Name: "c", Genesis: "g"}},
		Chaincodes: []Chaincode{{Name: "kv", Address: "127.0.0.1:3"}, {Name: "far", Connection: "connection.json"}},
	}
}

func TestEachProblemIsNamed(t *testing.T) {
	require.NoError(t, sound().validate(RolePeer))
	for want, spoil := range map[string]func(*Config){
		`role "orderer": "peer" is accepted here`:            func(c *Config) { c.Role = RoleOrderer },
		"name is missing":                                    func(c *Config) { c.Name = "" },
		"msp_id is missing":                                  func(c *Config) { c.MSPID = "" },
		"identity.cert is missing":                           func(c *Config) { c.Identity.Cert = "" },
		"identity.key is missing":                            func(c *Config) { c.Identity.Key = "" },
		"data is missing":                                    func(c *Config) { c.Data = "" },
		"verify_workers -1: ":                                func(c *Config) { c.VerifyWorkers = -1 },
		"checkpoint_interval -1: ":                           func(c *Config) { c.CheckpointInterval = -1 },
		"wire_gap -1ns: ":                                    func(c *Config) { c.WireGap = -1 },
		"wire_gap 1s: 0s, for none, to 100ms is accepted":    func(c *Config) { c.WireGap = time.Second },
		"processors -1: ":                                    func(c *Config) { c.Processors = -1 },
		"tls.cert or tls.key is missing":                     func(c *Config) { c.TLS.Enabled = true },
		`listen "nowhere": host:port is accepted`:            func(c *Config) { c.Listen = "nowhere" },
		`operations.listen "": host:port is accepted`:        func(c *Config) { c.Operations.Listen = "" },
		`address "a": host:port is accepted`:                 func(c *Config) { c.Address = "a" },
		`chaincodes.kv.address "": host:port is accepted`:    func(c *Config) { c.Chaincodes[0].Address = "" },
		"chaincodes.far: address or connection, one of them": func(c *Config) { c.Chaincodes[1].Address = "h:1" },
		"channels: at least one is accepted":                 func(c *Config) { c.Channels = nil },
		`channels: "c": a unique name without slashes`:       func(c *Config) { c.Channels = append(c.Channels, c.Channels[0]) },
		`channels: "a/b": a unique name without slashes`:     func(c *Config) { c.Channels[0].Name = "a/b" },
	} {
		c := sound()
		spoil(c)
		assert.ErrorContains(t, c.validate(RolePeer), want)
	}
}

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	c := sound()
	c.Name, c.Listen, c.Processors = "", "nowhere", -1
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, c.Save(file))
	_, err := Load(file, RolePeer)
	for _, want := range []string{file, "name is missing", `listen "nowhere"`, "processors -1"} {
		assert.ErrorContains(t, err, want)
	}
}

func TestAFileHoldsOneConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, sound().Save(file))
	one, err := os.ReadFile(file)
	require.NoError(t, err)
	for want, text := range map[string]string{
		"it is empty: ":                 "# nothing yet\n",
		"more than one YAML document: ": string(one) + "---\n---\nname: other\n",
		"yaml: line ":                   string(one) + "---\nname: [other\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Load(file, RolePeer)
		require.ErrorContains(t, err, file+": ")
		assert.ErrorContains(t, err, want)
	}
	for _, text := range []string{
		"---\n" + string(one), string(one) + "---\n", string(one) + "---\n# nothing\n---\n", string(one) + "...\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = Load(file, RolePeer)
		assert.NoError(t, err, text)
	}
}
