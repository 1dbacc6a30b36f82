// Package nodeconfig is the configuration file of an orderer or a peer.
package nodeconfig

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	// Name is what logs call the node, for example orderer1. It is required.
	Name string `yaml:"name"`
	// Role is RoleOrderer or RolePeer, as the subcommand that is given the file.
	Role string `yaml:"role"`
	// MSPID is the organisation that Identity's certificate is of, as the channels' configurations name it.
	MSPID string `yaml:"msp_id"`
	// Listen is the host:port that the node serves on.
	Listen string `yaml:"listen"`
	// Address is the host:port under which the channels' configurations name the node; empty: Listen.
	Address string `yaml:"address,omitempty"`
	// Operations is where operators find metrics, health and the log's level.
	Operations Operations `yaml:"operations"`
	// Identity is what the node signs with.
	Identity KeyPair `yaml:"identity"`
	// TLS is how connections to Listen are secured, and who the node is towards other nodes.
	TLS TLS `yaml:"tls"`
	// Data is the folder of the node's ledgers and logs, which no other node may use.
	Data string `yaml:"data"`
	// Channels are the channels that the node takes part in, at least one, of distinct names.
	Channels []Channel `yaml:"channels"`
	// Chaincodes are those that a peer executes. An orderer has none.
	Chaincodes []Chaincode `yaml:"chaincodes,omitempty"`
	// Processors is how many threads may run Go code at once; 0: as many as the host has. Where several nodes share a
	// host, process.FairProcessors is suggested. GOMAXPROCS in the environment goes before it.
	Processors int `yaml:"processors,omitempty"`
	// VerifyWorkers is how many of a channel's signatures a peer checks at once; 0: as many as it has threads.
	VerifyWorkers int `yaml:"verify_workers,omitempty"`
	// CheckpointInterval is how many transactions of a channel lie between two checkpoints of a peer, which is also the
	// most that a start after a crash replays; 0: 50,000.
	CheckpointInterval int `yaml:"checkpoint_interval,omitempty"`
	// WireGap is the least time between two writes to a connection under load (package wire), up to MaxWireGap; 0: none.
	// 8ms is suggested in block mode with blocks of 50 transactions or more, and none elsewhere.
	WireGap time.Duration `yaml:"wire_gap,omitempty"`
	// VolatileVotes has an orderer's votes leave before they are on disk, where orderers may lie: a power cut makes one that
	// votes again a liar. It is for measurements only.
	VolatileVotes bool `yaml:"volatile_votes,omitempty"`
	// LikeFabric has the node run as Fabric's own processes do: nothing waits to gather others, garbage is collected as
	// by Go's default, and each call is logged. It is for measurements of what neighbours do to such processes.
	LikeFabric bool `yaml:"like_fabric,omitempty"`
}

// Operations is the endpoint for operators.
type Operations struct {
	// Listen is its host:port.
	Listen string `yaml:"listen"`
	// Pprof is whether it serves /debug/pprof too.
	Pprof bool `yaml:"pprof,omitempty"`
}

// KeyPair names PEM files.
type KeyPair struct {
	// Cert is the certificate, and Key its private key.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// TLS is the node's own certificate towards clients and other nodes.
type TLS struct {
	// Enabled is false for measurements only: without TLS everybody who reaches an orderer is taken for one.
	Enabled bool `yaml:"enabled"`
	// KeyPair is required where TLS is enabled.
	KeyPair `yaml:",inline"`
}

// Channel is a channel that a node takes part in.
type Channel struct {
	// Name is the channel's id.
	Name string `yaml:"name"`
	// Genesis is the file of its block 0.
	Genesis string `yaml:"genesis"`
}

// Chaincode is a chaincode server of a peer. It has either an Address or a Connection.
type Chaincode struct {
	// Name is the chaincode's, as the channels define it.
	Name string `yaml:"name"`
	// Address is the host:port where it listens, without TLS.
	Address string `yaml:"address,omitempty"`
	// Connection is a file connection.json of Fabric's.
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
		err = c.validate(role)
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
	err = decoder.Decode(&c)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty: the keys of a node's configuration are accepted")
	}
	if err != nil {
		return nil, err
	}
	if err := CheckRest(decoder); err != nil {
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

// CheckRest errs where a second document follows the one that was decoded. A template may leave empty ones behind the first.
func CheckRest(decoder *yaml.Decoder) error {
	for {
		var another any
		err := decoder.Decode(&another)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case another != nil:
			return errors.New("it has more than one YAML document: one is accepted")
		}
	}
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
