// Package nodeconfig is the configuration file of an orderer or a peer.
package nodeconfig

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/pb/commonpb"

	"google.golang.org/protobuf/proto"
)

// Roles of a node.
const (
	RoleOrderer = "orderer"
	RolePeer    = "peer"
)

// Config is nodes/<name>.yaml. In the file, paths are relative to the network's
// folder (the one that holds nodes/); Load makes them absolute.
type Config struct {
	Name       string      `yaml:"name"`
	Role       string      `yaml:"role"`
	MSPID      string      `yaml:"msp_id"`
	Listen     string      `yaml:"listen"`
	Address    string      `yaml:"address,omitempty"` // as channels name this node; empty: as it listens
	Operations Operations  `yaml:"operations"`
	Identity   KeyPair     `yaml:"identity"`
	TLS        TLS         `yaml:"tls"`
	Data       string      `yaml:"data"`
	Channels   []Channel   `yaml:"channels"`
	Chaincodes []Chaincode `yaml:"chaincodes,omitempty"` // peers only
	// Processors is how many threads may run Go code at once; 0: as many as the host has.
	Processors int `yaml:"processors,omitempty"`
	// VerifyWorkers is how many of a channel's signatures a peer checks at once; 0: as many as it has threads.
	VerifyWorkers int `yaml:"verify_workers,omitempty"`
	// CheckpointInterval is how many transactions of a channel lie between two checkpoints of a peer; 0: 50,000.
	CheckpointInterval int `yaml:"checkpoint_interval,omitempty"`
	// WireGap is the least time between two writes to a connection under load (package wire); 0: none.
	WireGap time.Duration `yaml:"wire_gap,omitempty"`
}

// Operations is the endpoint for operators.
type Operations struct {
	Listen string `yaml:"listen"`
	Pprof  bool   `yaml:"pprof,omitempty"`
}

// KeyPair names a certificate and its key, PEM files.
type KeyPair struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// TLS is the node's own certificate towards clients and other nodes.
type TLS struct {
	Enabled bool `yaml:"enabled"`
	KeyPair `yaml:",inline"`
}

// Channel names a channel's genesis block.
type Channel struct {
	Name    string `yaml:"name"`
	Genesis string `yaml:"genesis"`
}

// Chaincode says where a chaincode server of this peer listens: by its address, or by a file
// connection.json of Fabric's.
type Chaincode struct {
	Name       string `yaml:"name"`
	Address    string `yaml:"address,omitempty"`
	Connection string `yaml:"connection,omitempty"`
}

// MaxWireGap is far below any timeout of the protocol.
const MaxWireGap = 100 * time.Millisecond

// maxFile bounds what is read: a node's configuration has about a kilobyte.
const maxFile = 1 << 20

// Load reads and checks a node's configuration; role is the one that the caller is.
func Load(path, role string) (*Config, error) {
	c, err := load(path)
	if err == nil {
		err = c.check(role)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

func load(path string) (*Config, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(absolute)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	var c Config
	if err := decoder.Decode(&c); err != nil {
		return nil, err
	}
	root := filepath.Dir(filepath.Dir(absolute))
	paths := []*string{&c.Identity.Cert, &c.Identity.Key, &c.TLS.Cert, &c.TLS.Key, &c.Data}
	for i := range c.Channels {
		paths = append(paths, &c.Channels[i].Genesis)
	}
	for i := range c.Chaincodes {
		paths = append(paths, &c.Chaincodes[i].Connection)
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(root, *p)
		}
	}
	return &c, nil
}

func (c *Config) check(role string) error {
	if c.Role != role {
		return fmt.Errorf("role %q: %q is accepted here", c.Role, role)
	}
	for key, value := range map[string]string{
		"name": c.Name, "msp_id": c.MSPID, "identity.cert": c.Identity.Cert, "identity.key": c.Identity.Key, "data": c.Data,
	} {
		if value == "" {
			return fmt.Errorf("%s is missing", key)
		}
	}
	if c.VerifyWorkers < 0 {
		return fmt.Errorf("verify_workers %d: 0, for one a thread, or more is accepted", c.VerifyWorkers)
	}
	if c.CheckpointInterval < 0 {
		return fmt.Errorf("checkpoint_interval %d: 0, for 50000 transactions, or more is accepted", c.CheckpointInterval)
	}
	if c.WireGap < 0 || c.WireGap > MaxWireGap {
		return fmt.Errorf("wire_gap %s: 0s, for none, to %s is accepted", c.WireGap, MaxWireGap)
	}
	if c.Processors < 0 {
		return fmt.Errorf("processors %d: 0, for all of the host's, or more is accepted", c.Processors)
	}
	if c.TLS.Enabled && (c.TLS.Cert == "" || c.TLS.Key == "") {
		return errors.New("tls.cert or tls.key is missing; both, or tls.enabled: false, are accepted")
	}
	addresses := map[string]string{"listen": c.Listen, "operations.listen": c.Operations.Listen}
	if c.Address != "" {
		addresses["address"] = c.Address
	}
	for _, cc := range c.Chaincodes {
		switch {
		case cc.Connection == "":
			addresses["chaincodes."+cc.Name+".address"] = cc.Address
		case cc.Address != "":
			return fmt.Errorf("chaincodes.%s: address or connection, one of them, is accepted", cc.Name)
		}
	}
	for key, value := range addresses {
		if _, _, err := net.SplitHostPort(value); err != nil {
			return fmt.Errorf("%s %q: host:port is accepted", key, value)
		}
	}
	if len(c.Channels) == 0 {
		return errors.New("channels: at least one is accepted")
	}
	seen := map[string]bool{}
	for _, ch := range c.Channels {
		if ch.Name == "" || ch.Genesis == "" || seen[ch.Name] || filepath.Base(ch.Name) != ch.Name {
			return fmt.Errorf("channels: %q: a unique name without slashes and a genesis file are accepted", ch.Name)
		}
		seen[ch.Name] = true
	}
	return nil
}

// KnownAs is this node's address in the configuration of its channels.
func (c *Config) KnownAs() string {
	if c.Address != "" {
		return c.Address
	}
	return c.Listen
}

// Signer loads the node's identity.
func (c *Config) Signer() (*identity.SigningIdentity, error) {
	return identity.LoadSigner(c.MSPID, c.Identity.Cert, c.Identity.Key)
}

// Certificate loads the node's TLS certificate; nil where TLS is off.
func (c *Config) Certificate() (*tls.Certificate, error) {
	if !c.TLS.Enabled {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s: %w", c.TLS.Cert, err)
	}
	return &pair, nil
}

// GenesisBlock reads a channel's block 0 and checks that it is that channel's.
func (ch Channel) GenesisBlock() (*commonpb.Block, *channelconfig.Bundle, error) {
	raw, err := os.ReadFile(ch.Genesis)
	if err != nil {
		return nil, nil, fmt.Errorf("genesis block of %s: %w (block 0 of the channel is accepted, which any of its nodes gives)", ch.Name, err)
	}
	var block commonpb.Block
	if err := proto.Unmarshal(raw, &block); err != nil {
		return nil, nil, fmt.Errorf("genesis block %s: not a block", ch.Genesis)
	}
	bundle, err := channelconfig.FromBlock(&block)
	if err != nil {
		return nil, nil, fmt.Errorf("genesis block %s: %w", ch.Genesis, err)
	}
	if bundle.ChannelID != ch.Name || block.Header.GetNumber() != 0 {
		return nil, nil, fmt.Errorf("genesis block %s: it is block %d of channel %q, not block 0 of %q", ch.Genesis, block.Header.GetNumber(), bundle.ChannelID, ch.Name)
	}
	return &block, bundle, nil
}

// Save writes the configuration as a file.
func (c *Config) Save(path string) error {
	raw, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}
