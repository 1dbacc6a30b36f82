package setup

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

const (
	host       = "127.0.0.1"
	everywhere = "0.0.0.0"
	ordererMSP = "OrdererMSP"
	ordererOrg = "example.com"
)

func orgMSP(i int) string    { return fmt.Sprintf("Org%dMSP", i+1) }
func orgDomain(i int) string { return fmt.Sprintf("org%d.example.com", i+1) }

// node is one process with all that is written about it. Paths are relative to the network's folder.
type node struct {
	network.Node
	fqdn string // as in its certificates, for example peer0.org1.example.com
	home string // its folder below crypto/
	cfg  *nodeconfig.Config
	peer *node // of a chaincode
}

// plan places nodes, names and ports. It touches nothing.
type plan struct {
	brokers    []*node
	sequencer  []*node // at most one
	orderers   []*node
	peers      [][]*node // by organisation
	chaincodes []*node
	nextPort   int
}

func newPlan(o Options, chaincodes []channelconfig.GenesisChaincode) *plan {
	p := &plan{nextPort: o.BasePort}
	for i := range o.Orderers {
		name := fmt.Sprintf("orderer%d", i+1)
		if o.Kubernetes != "" {
			name = fmt.Sprintf("orderer-%d", i)
		}
		p.orderers = append(p.orderers, p.node(o, nodeconfig.RoleOrderer, ordererMSP, name, name+"."+ordererOrg, "ordererOrganizations/"+ordererOrg+"/orderers"))
	}
	for org := range o.Orgs {
		var peers []*node
		for i := range o.PeersPerOrg {
			fqdn := fmt.Sprintf("peer%d.%s", i, orgDomain(org))
			name := fmt.Sprintf("peer%d-org%d", i, org+1)
			if o.Kubernetes != "" {
				name = fmt.Sprintf("peer-org%d-%d", org+1, i)
			}
			peers = append(peers, p.node(o, nodeconfig.RolePeer, orgMSP(org), name, fqdn, "peerOrganizations/"+orgDomain(org)+"/peers"))
		}
		p.peers = append(p.peers, peers)
	}
	for _, peers := range p.peers {
		for _, peer := range peers {
			for _, cc := range chaincodes {
				p.chaincodes = append(p.chaincodes, p.chaincode(o, peer, cc))
			}
		}
	}
	for i := range o.Brokers {
		p.brokers = append(p.brokers, p.broker(i))
	}
	if consenters[o.Consenter].sequencer {
		p.sequencer = []*node{p.newSequencer(o)}
	}
	return p
}

// place gives a node's next port: where others find it, and where it listens. On
// Kubernetes a node is a pod of a StatefulSet, known by its name behind a headless Service.
func (p *plan) place(o Options, name string) (address, listen string) {
	if o.Kubernetes == "" {
		address = p.port()
		return address, address
	}
	_, port, _ := net.SplitHostPort(p.port())
	return net.JoinHostPort(name+"."+o.Kubernetes, port), net.JoinHostPort(everywhere, port)
}

// port gives the next port, on loopback.
func (p *plan) port() string {
	p.nextPort++
	return net.JoinHostPort(host, strconv.Itoa(p.nextPort-1))
}

func (p *plan) node(o Options, role, msp, name, fqdn, parent string) *node {
	n := &node{fqdn: fqdn, home: path.Join("crypto", parent, fqdn)}
	config := path.Join("nodes", name+".yaml")
	address, listen := p.place(o, name)
	operations, listenOperations := p.place(o, name)
	n.Node = network.Node{
		Name: name, Role: role, MSPID: msp, Address: address, Operations: operations, Config: config,
		Data: path.Join("data", name), Log: path.Join("log", name+".log"), Args: []string{role, "--config", config},
	}
	n.cfg = &nodeconfig.Config{
		Name: name, Role: role, MSPID: msp, Listen: listen,
		Operations: nodeconfig.Operations{Listen: listenOperations, Pprof: o.Pprof},
		Identity:   nodeconfig.KeyPair{Cert: certFile(n.home, fqdn), Key: keyFile(n.home)},
		Data:       n.Data,
		Processors: o.Processors,
		WireGap:    o.WireGap,
		LikeFabric: o.LikeFabric,
	}
	if listen != address {
		n.cfg.Address = address
	}
	n.cfg.VolatileVotes = o.VolatileVotes && role == nodeconfig.RoleOrderer
	if role == nodeconfig.RolePeer {
		n.cfg.VerifyWorkers, n.cfg.CheckpointInterval = o.VerifyWorkers, o.CheckpointInterval
	}
	if !o.NoTLS {
		n.cfg.TLS = nodeconfig.TLS{Enabled: true, KeyPair: nodeconfig.KeyPair{Cert: path.Join(n.home, "tls/server.crt"), Key: path.Join(n.home, "tls/server.key")}}
	}
	for _, channel := range o.Channels {
		n.cfg.Channels = append(n.cfg.Channels, nodeconfig.Channel{Name: channel, Genesis: genesisFile(channel)})
	}
	return n
}

func (p *plan) chaincode(o Options, peer *node, cc channelconfig.GenesisChaincode) *node {
	name := "cc-" + cc.Name + "-" + peer.Name
	if o.Kubernetes != "" {
		name = "cc-" + cc.Name + strings.TrimPrefix(peer.Name, nodeconfig.RolePeer)
	}
	address, listen := p.place(o, name)
	n := &node{Node: network.Node{
		Name: name, Role: "chaincode", MSPID: peer.MSPID, Address: address, Log: path.Join("log", name+".log"), Chaincode: cc.Name,
	}, peer: peer}
	n.Args = []string{"chaincode", cc.Name, "--listen", listen, "--id", cc.Name + ":" + cc.Version, "--processors", strconv.Itoa(o.Processors), "--wire-gap", o.WireGap.String()}
	mine := nodeconfig.Chaincode{Name: cc.Name, Address: n.Address}
	if o.ChaincodeTLS {
		n.home = path.Join(path.Dir(peer.home), "..", "chaincodes", name)
		n.Args = append(n.Args, "--tls-cert", path.Join(n.home, "tls/server.crt"), "--tls-key", path.Join(n.home, "tls/server.key"), "--client-ca", path.Join(n.home, "tls/ca.crt"))
		mine = nodeconfig.Chaincode{Name: cc.Name, Connection: path.Join(n.home, "connection.json")}
	}
	peer.cfg.Chaincodes = append(peer.cfg.Chaincodes, mine)
	return n
}

// broker places a Kafka broker. It is not ours to run: it has no arguments.
func (p *plan) broker(i int) *node {
	name := fmt.Sprintf("broker%d", i+1)
	return &node{Node: network.Node{
		Name: name, Role: "broker", Address: p.port(), Controller: p.port(),
		Config: path.Join("nodes", name+".properties"), Data: path.Join("data", name), Log: path.Join("log", name+".log"), Args: []string{},
	}}
}

// newSequencer places the sequencer. To who watches the network it is a broker, though one of our own.
func (p *plan) newSequencer(o Options) *node {
	const name, fqdn = "sequencer1", "sequencer1." + ordererOrg
	home := path.Join("crypto", "ordererOrganizations", ordererOrg, "orderers", fqdn)
	n := &node{fqdn: fqdn, home: home, Node: network.Node{
		Name: name, Role: "broker", MSPID: ordererMSP, Address: p.port(), Operations: p.port(),
		Data: path.Join("data", name), Log: path.Join("log", name+".log"),
	}}
	n.Args = []string{"sequencer", "--listen", n.Address, "--data", n.Data, "--operations", n.Operations, "--processors", strconv.Itoa(o.Processors)}
	for _, channel := range o.Channels {
		n.Args = append(n.Args, "--channel", channel)
	}
	if o.Pprof {
		n.Args = append(n.Args, "--pprof")
	}
	if o.SequencerMemory {
		n.Args = append(n.Args, "--memory")
	}
	if !o.NoTLS {
		n.Args = append(n.Args, "--tls-cert", path.Join(home, "tls/server.crt"), "--tls-key", path.Join(home, "tls/server.key"), "--client-ca", path.Join(home, "tls/ca.crt"))
	}
	return n
}

// nodes lists all, in the order in which they are best started.
func (p *plan) nodes() []*node {
	all := append([]*node{}, p.brokers...)
	all = append(all, p.sequencer...)
	all = append(all, p.orderers...)
	all = append(all, p.chaincodes...)
	for _, peers := range p.peers {
		all = append(all, peers...)
	}
	return all
}

func genesisFile(channel string) string { return path.Join("channels", channel+".block") }

func certFile(home, name string) string { return path.Join(home, "msp/signcerts", name+"-cert.pem") }

func keyFile(home string) string { return path.Join(home, "msp/keystore/priv_sk") }

func addresses(nodes []*node) []string {
	out := make([]string, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, n.Address)
	}
	return out
}

// hostOf is the host of an address that place made.
func hostOf(address string) string { return address[:strings.LastIndexByte(address, ':')] }
