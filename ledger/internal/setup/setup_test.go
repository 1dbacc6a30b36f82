package setup

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

func TestInitMakesANetworkThatNodesCanRead(t *testing.T) {
	o := Defaults()
	o.Dir = filepath.Join(t.TempDir(), "net")
	o.Channels = []string{"mychannel", "second"}
	o.Chaincodes = []string{"smallbank", "kv=AND('Org1MSP.peer','Org2MSP.peer')"}
	_, err := Init(o)
	require.NoError(t, err)

	raw, err := os.ReadFile(filepath.Join(o.Dir, network.FileName))
	require.NoError(t, err)
	var file network.File
	require.NoError(t, json.Unmarshal(raw, &file))
	assert.Equal(t, o.Channels, file.Channels)
	roles, taken := map[string]int{}, map[string]bool{}
	for _, n := range file.Nodes {
		roles[n.Role]++
		for _, address := range []string{n.Address, n.Operations} {
			assert.False(t, address != "" && taken[address], "%s is given twice", address)
			taken[address] = true
		}
		if n.Config == "" {
			continue
		}
		cfg, err := nodeconfig.Load(filepath.Join(o.Dir, n.Config), n.Role)
		require.NoError(t, err)
		signer, err := cfg.Signer()
		require.NoError(t, err)
		certificate, err := cfg.Certificate()
		require.NoError(t, err)
		require.NotNil(t, certificate)
		for _, channel := range cfg.Channels {
			_, bundle, err := channel.GenesisBlock()
			require.NoError(t, err)
			id, err := bundle.MSP.Deserialize(signer.Serialized())
			require.NoError(t, err)
			assert.True(t, bundle.Policy(channelconfig.ChannelWriters).Evaluate([]*identity.Identity{id}), n.Name)
			assert.Equal(t, n.Role == nodeconfig.RoleOrderer, bundle.Policy(channelconfig.BlockValidation).Evaluate([]*identity.Identity{id}), n.Name)
			assert.Len(t, bundle.Orderer.Consenters, 3)
			assert.Len(t, bundle.Orgs["Org1MSP"].Peers, 2)
			assert.Len(t, bundle.Chaincodes, 2)
		}
	}
	assert.Equal(t, map[string]int{"orderer": 3, "peer": 4, "chaincode": 8}, roles)
	require.Len(t, file.Clients, 2)
	for _, c := range file.Clients {
		_, err := identity.LoadSigner(c.MSPID, filepath.Join(o.Dir, c.Cert), filepath.Join(o.Dir, c.Key))
		require.NoError(t, err)
		info, err := os.Stat(filepath.Join(o.Dir, c.Key))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	_, err = Init(o)
	require.ErrorContains(t, err, "a new or an empty folder is accepted")
}

func TestWhatIsWrittenIsSpacedWhereTransactionsWaitForTheirBlocks(t *testing.T) {
	for _, test := range []struct {
		mode     string
		messages uint32
		gap      string
	}{
		{"stream", 500, "0s"}, {"block", 500, "8ms"}, {"block", 50, "8ms"}, {"block", 10, "0s"}, {"block", 1, "0s"},
	} {
		o := Defaults()
		o.Dir, o.Mode, o.MaxMessageCount = filepath.Join(t.TempDir(), "net"), test.mode, test.messages
		file, err := Init(o)
		require.NoError(t, err)
		assert.Equal(t, test.gap, file.WireGap, "%s, %d", test.mode, test.messages)
	}
}

func TestNodesLikeFabricGetEveryCoreAndNoGap(t *testing.T) {
	o := Defaults()
	o.Dir, o.Mode, o.LikeFabric = filepath.Join(t.TempDir(), "net"), "block", true
	file, err := Init(o)
	require.NoError(t, err)
	assert.Equal(t, "0s", file.WireGap)
	for _, node := range file.Nodes {
		if node.Role == "chaincode" {
			assert.Subset(t, node.Args, []string{"--processors", "0", "--wire-gap", "0s"})
			continue
		}
		cfg, err := nodeconfig.Load(filepath.Join(o.Dir, node.Config), node.Role)
		require.NoError(t, err)
		assert.True(t, cfg.LikeFabric, node.Name)
		assert.Zero(t, cfg.Processors, node.Name)
	}
}

func TestOrderersAreToldThatTheirVotesAreVolatile(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		o := Defaults()
		o.Dir, o.Consenter, o.Orderers, o.VolatileVotes = filepath.Join(t.TempDir(), "net"), consenter, 4, true
		file, err := Init(o)
		require.NoError(t, err)
		for _, node := range file.Nodes {
			if node.Config == "" {
				continue
			}
			cfg, err := nodeconfig.Load(filepath.Join(o.Dir, node.Config), node.Role)
			require.NoError(t, err)
			assert.Equal(t, node.Role == nodeconfig.RoleOrderer, cfg.VolatileVotes, "%s of %s", node.Name, consenter)
		}
	}
}

func TestSequencerIsPlacedAndNamed(t *testing.T) {
	o := Defaults()
	o.Dir, o.Consenter, o.SequencerMemory, o.Channels = filepath.Join(t.TempDir(), "net"), "sequencer", true, []string{"one", "two"}
	file, err := Init(o)
	require.NoError(t, err)
	node := file.Nodes[0]
	assert.Equal(t, "broker", node.Role)
	assert.Equal(t, "sequencer", node.Args[0])
	assert.Subset(t, node.Args, []string{"--memory", "--channel", "one", "two", "--client-ca"})
	for _, channel := range o.Channels {
		_, bundle, err := nodeconfig.Channel{Name: channel, Genesis: filepath.Join(o.Dir, genesisFile(channel))}.GenesisBlock()
		require.NoError(t, err)
		assert.Equal(t, channelconfig.Sequencer, bundle.Orderer.ConsensusType)
		assert.Equal(t, node.Address, bundle.Orderer.Sequencer)
	}
}

func TestKafkaOrderersAreToldOfTheBrokers(t *testing.T) {
	o := Defaults()
	o.Dir, o.Consenter = filepath.Join(t.TempDir(), "net"), "kafka"
	file, err := Init(o)
	require.NoError(t, err)
	var brokers []string
	for _, n := range file.Nodes {
		if n.Role == "broker" {
			brokers = append(brokers, n.Address)
			assert.Empty(t, n.Args)
			assert.NotEqual(t, n.Address, n.Controller)
		}
	}
	require.Len(t, brokers, 3)
	_, bundle, err := nodeconfig.Channel{Name: "mychannel", Genesis: filepath.Join(o.Dir, genesisFile("mychannel"))}.GenesisBlock()
	require.NoError(t, err)
	assert.Equal(t, brokers, bundle.Orderer.KafkaBrokers)
}

// A pod listens everywhere, and is known, by others and to itself, by its name.
func TestInitNamesNodesAsPods(t *testing.T) {
	o := Defaults()
	o.Dir, o.Kubernetes = filepath.Join(t.TempDir(), "net"), "ledger"
	file, err := Init(o)
	require.NoError(t, err)
	var known []string
	for _, n := range file.Nodes {
		known = append(known, n.Address)
		if n.Config == "" {
			assert.Contains(t, n.Args, "0.0.0.0:"+n.Address[len(n.Address)-5:])
			continue
		}
		cfg, err := nodeconfig.Load(filepath.Join(o.Dir, n.Config), n.Role)
		require.NoError(t, err)
		assert.Equal(t, n.Address, cfg.KnownAs())
		assert.Equal(t, "0.0.0.0:"+n.Address[len(n.Address)-5:], cfg.Listen)
		certificate, err := cfg.Certificate()
		require.NoError(t, err)
		require.NoError(t, certificate.Leaf.VerifyHostname(hostOf(n.Address)))
		_, bundle, err := cfg.Channels[0].GenesisBlock()
		require.NoError(t, err)
		assert.Equal(t, "orderer-0.ledger", bundle.Orderer.Consenters[0].Host)
	}
	assert.Equal(t, []string{
		"orderer-0.ledger:17000", "orderer-1.ledger:17002", "orderer-2.ledger:17004",
		"cc-smallbank-org1-0.ledger:17014", "cc-smallbank-org1-1.ledger:17015",
		"cc-smallbank-org2-0.ledger:17016", "cc-smallbank-org2-1.ledger:17017",
		"peer-org1-0.ledger:17006", "peer-org1-1.ledger:17008", "peer-org2-0.ledger:17010", "peer-org2-1.ledger:17012",
	}, known)
}

func TestInitRefuses(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--dir is missing":                  func(o *Options) { o.Dir = "" },
		"--orgs 0":                          func(o *Options) { o.Orgs = 0 },
		"--mode \"batch\"":                  func(o *Options) { o.Mode = "batch" },
		"--consenter \"pbft\"":              func(o *Options) { o.Consenter = "pbft" },
		"only --consenter kafka":            func(o *Options) { o.Brokers = 3 },
		"only --consenter bft or zyzzyva":   func(o *Options) { o.VolatileVotes = true },
		"only --consenter sequencer":        func(o *Options) { o.SequencerMemory = true },
		"--brokers 10":                      func(o *Options) { o.Consenter, o.Brokers = "kafka", 10 },
		"solo is one orderer":               func(o *Options) { o.Consenter = "solo" },
		"--channel \"A\"":                   func(o *Options) { o.Channels = []string{"A"} },
		"--channel \"a/b\"":                 func(o *Options) { o.Channels = []string{"a/b"} },
		"--channel \"a\"":                   func(o *Options) { o.Channels = []string{"a", "a"} },
		"the policy names Org9MSP: Org1MSP": func(o *Options) { o.Chaincodes = []string{"kv=OR('Org9MSP.peer')"} },
		"system chaincode":                  func(o *Options) { o.Chaincodes = []string{"qscc"} },
		"--chaincode kv":                    func(o *Options) { o.Chaincodes = []string{"kv=maybe"} },
		"--chaincode \"kv\"":                func(o *Options) { o.Chaincodes = []string{"kv", "kv"} },
		"needs ports up to":                 func(o *Options) { o.BasePort, o.PeersPerOrg, o.Orgs = 65000, 100, 26 },
		"--like-fabric: neither":            func(o *Options) { o.LikeFabric, o.Processors = true, 2 },
		"--kubernetes \"A.b\"":              func(o *Options) { o.Kubernetes = "A.b" },
		"--max-message-count 0":             func(o *Options) { o.MaxMessageCount = 0 },
		"--preferred-max-bytes 0":           func(o *Options) { o.PreferredMaxBytes = 0 },
		"--absolute-max-bytes 0":            func(o *Options) { o.AbsoluteMaxBytes = 0 },
		"--absolute-max-bytes 264241153: at most 264241152 is accepted with --consenter raft":  func(o *Options) { o.AbsoluteMaxBytes = 252<<20 + 1 },
		"--absolute-max-bytes 104792065: at most 104792064 is accepted with --consenter kafka": func(o *Options) { o.Consenter, o.AbsoluteMaxBytes = "kafka", 100<<20-64<<10+1 },
		"at most --absolute-max-bytes, 9":                      func(o *Options) { o.PreferredMaxBytes, o.AbsoluteMaxBytes = 10, 9 },
		"--batch-timeout 0s":                                   func(o *Options) { o.BatchTimeout = 0 },
		"--virtual-block-txs 0":                                func(o *Options) { o.VirtualBlockTxs = 0 },
		"--virtual-block-interval 0s":                          func(o *Options) { o.VirtualBlockInterval = 0 },
		"--raft-tick -1s":                                      func(o *Options) { o.RaftTick = -time.Second },
		"--election-ticks 1":                                   func(o *Options) { o.ElectionTicks = 1 },
		"--snapshot-bytes 0":                                   func(o *Options) { o.SnapshotBytes = 0 },
		"--orgs 0: 1 to 26 is accepted\n--max-message-count 0": func(o *Options) { o.Orgs, o.MaxMessageCount = 0, 0 },
	} {
		o := Defaults()
		o.Dir = filepath.Join(t.TempDir(), "net")
		if want == "needs ports up to" {
			o.Chaincodes = nil
		}
		change(&o)
		_, err := Init(o)
		require.ErrorContains(t, err, want)
		assert.NoDirExists(t, o.Dir, "what is refused leaves nothing in the way of the next try")
	}
}

func TestWhatAKindOfOrderingDoesNotHaveIsNotChecked(t *testing.T) {
	o := Defaults()
	o.Dir, o.Mode, o.Consenter, o.Orderers = filepath.Join(t.TempDir(), "net"), "block", "solo", 1
	o.VirtualBlockTxs, o.VirtualBlockInterval, o.RaftTick, o.ElectionTicks, o.SnapshotBytes = 0, 0, 0, 0, 0
	_, err := Init(o)
	require.NoError(t, err)
}

// TestWhatFlagsSayOfKindsIsMadeFromThem: a kind that is registered needs no other line of text.
func TestWhatFlagsSayOfKindsIsMadeFromThem(t *testing.T) {
	consenters["another"] = consenter{grows: true, sequencer: true, votes: true, brokers: 1}
	defer delete(consenters, "another")
	flags := Command().Flags()
	for flag, want := range map[string]string{
		"consenter": "another, bft, kafka, raft, sequencer, solo or zyzzyva", "brokers": "another or kafka: ",
		"sequencer-memory": "another or sequencer: ", "volatile-votes": "another, bft or zyzzyva: ",
	} {
		assert.True(t, strings.HasPrefix(flags.Lookup(flag).Usage, want), "%s: %s", flag, flags.Lookup(flag).Usage)
	}
	for want, change := range map[string]func(*Options){
		`--consenter "pbft": another, bft, kafka, raft, sequencer, solo or zyzzyva is accepted`: func(o *Options) { o.Consenter = "pbft" },
		"only --consenter another or kafka has brokers":                                         func(o *Options) { o.Brokers = 3 },
		"only --consenter another or sequencer has a sequencer":                                 func(o *Options) { o.SequencerMemory = true },
		"--volatile-votes: only --consenter another, bft or zyzzyva takes it":                   func(o *Options) { o.VolatileVotes = true },
		"without --consenter another, kafka or sequencer":                                       func(o *Options) { o.Consenter, o.Kubernetes = "kafka", "ledger" },
	} {
		o := Defaults()
		o.Dir = filepath.Join(t.TempDir(), "net")
		change(&o)
		_, err := Init(o)
		require.ErrorContains(t, err, want)
	}
}

func TestNodeConfigurationIsChecked(t *testing.T) {
	o := Defaults()
	o.Dir = filepath.Join(t.TempDir(), "net")
	_, err := Init(o)
	require.NoError(t, err)
	path := filepath.Join(o.Dir, "nodes", "orderer1.yaml")
	_, err = nodeconfig.Load(path, nodeconfig.RolePeer)
	require.ErrorContains(t, err, `role "orderer": "peer" is accepted here`)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(raw, "colour: red\n"...), 0o600))
	_, err = nodeconfig.Load(path, nodeconfig.RoleOrderer)
	require.ErrorContains(t, err, "colour")
}

// TestAnOrdererIsAddedAndGetsAnotherCertificate to a folder that exists.
func TestAnOrdererIsAddedAndGetsAnotherCertificate(t *testing.T) {
	for _, test := range []struct{ service, name, address, listen string }{
		{"", "orderer4", "127.0.0.1:17018", "127.0.0.1:17018"},
		{"ledger", "orderer-3", "orderer-3.ledger:17018", "0.0.0.0:17018"},
	} {
		o := Defaults()
		o.Dir, o.Kubernetes = filepath.Join(t.TempDir(), "net"), test.service
		_, err := Init(o)
		require.NoError(t, err)
		for _, port := range []string{"17018", "17020"} { // a second one as well
			node, err := AddOrderer(o.Dir)
			require.NoError(t, err)
			file, err := network.Load(filepath.Join(o.Dir, network.FileName))
			require.NoError(t, err)
			require.Contains(t, file.Nodes, *node)
			cfg, err := nodeconfig.Load(filepath.Join(o.Dir, node.Config), nodeconfig.RoleOrderer)
			require.NoError(t, err)
			assert.Equal(t, node.Name, cfg.Name)
			assert.Equal(t, node.Address, cfg.KnownAs())
			if port == "17018" {
				assert.Equal(t, []string{test.name, test.address, test.listen}, []string{node.Name, node.Address, cfg.Listen})
				assert.Equal(t, []string{"orderer", "--config", "nodes/" + test.name + ".yaml"}, node.Args)
			}
			assert.Contains(t, node.Address, port)
			before, err := cfg.Certificate()
			require.NoError(t, err)
			signer, err := cfg.Signer()
			require.NoError(t, err)
			_, bundle, err := cfg.Channels[0].GenesisBlock()
			require.NoError(t, err)
			_, err = bundle.Admits(signer.Serialized(), channelconfig.BlockValidation)
			require.NoError(t, err)
			require.NoError(t, RenewTLS(o.Dir, node.Name))
			after, err := cfg.Certificate()
			require.NoError(t, err)
			assert.NotEqual(t, before.Certificate[0], after.Certificate[0])
			assert.Equal(t, before.Leaf.DNSNames, after.Leaf.DNSNames)
		}
		assert.ErrorContains(t, RenewTLS(o.Dir, "nobody"), `node "nobody"`)
	}
	o := Defaults()
	o.Dir, o.Consenter, o.Orderers = filepath.Join(t.TempDir(), "solo"), "solo", 1
	_, err := Init(o)
	require.NoError(t, err)
	_, err = AddOrderer(o.Dir)
	assert.ErrorContains(t, err, "bft, raft or zyzzyva is accepted")
}

// TestWhatAnOrdererHasLeftIsNotOverwritten: it may have been removed for good, and its keys and its ledger may be needed.
func TestWhatAnOrdererHasLeftIsNotOverwritten(t *testing.T) {
	o := Defaults()
	o.Dir = filepath.Join(t.TempDir(), "net")
	_, err := Init(o)
	require.NoError(t, err)
	for _, left := range []string{"crypto/ordererOrganizations/example.com/orderers/orderer4.example.com", "nodes/orderer4.yaml", "data/orderer4"} {
		path := filepath.Join(o.Dir, left)
		require.NoError(t, os.MkdirAll(path, 0o755))
		before := files(t, o.Dir)
		_, err := AddOrderer(o.Dir)
		require.ErrorContains(t, err, left+" is of an orderer4 that was there before")
		assert.Equal(t, before, files(t, o.Dir))
		require.NoError(t, os.Remove(path))
	}
	_, err = AddOrderer(o.Dir)
	require.NoError(t, err)
}

// files are all in a folder, with what they hold.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			all[name] = ""
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(raw)
		return err
	}))
	return all
}
