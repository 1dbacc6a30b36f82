package load

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/process"
)

// description is a network.json and where it was read: its paths are relative to
// the folder it lies in.
type description struct {
	network.File
	file string
}

// Systems that are no ledger, by the mode that their network.json tells.
const (
	systemLedger    = "ledger"
	systemCassandra = "cassandra"
	systemMySQL     = "mysql"
	systemMariaDB   = "mariadb"
)

// endpoint is a gateway peer and the client identity that is used with it, or a node of a database.
type endpoint struct {
	name    string
	address string
	tlsCA   string // file; empty: plaintext
	signer  *identity.SigningIdentity
}

func (e endpoint) String() string { return e.name }

func readNetwork(file string) (*description, error) {
	described, err := network.Load(file)
	if err != nil {
		return nil, err
	}
	return &description{File: *described, file: file}, nil
}

func (n *description) path(relative string) string {
	if filepath.IsAbs(relative) {
		return relative
	}
	return filepath.Join(filepath.Dir(n.file), relative)
}

// gap is the least time between two writes of a client to a connection under load; 0: none.
func (n *description) gap() (time.Duration, error) {
	if n.WireGap == "" {
		return 0, nil
	}
	gap, err := time.ParseDuration(n.WireGap)
	if err != nil {
		return 0, fmt.Errorf("%s: wire_gap %q: a duration such as 8ms is accepted", n.file, n.WireGap)
	}
	return gap, nil
}

// processors is how many threads a client may run on: its fair part where it shares this host with all nodes, from
// which it would take CPU otherwise; elsewhere 0, for all.
func (n *description) processors(cores int) int {
	nodes := 0
	for _, node := range n.Nodes {
		host, _, err := net.SplitHostPort(node.Address)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			return 0
		}
		if node.Role == "orderer" || node.Role == "peer" || node.Role == roleReplica {
			nodes++
		}
	}
	return process.FairProcessors(cores, nodes)
}

// system is what the network is one of.
func (n *description) system() string {
	switch n.Mode {
	case systemCassandra, systemMySQL, systemMariaDB:
		return n.Mode
	}
	return systemLedger
}

const roleReplica = "replica"

// replicas gives a database's nodes: those asked for, or all.
func (n *description) replicas(asked []string) ([]endpoint, error) {
	var found []endpoint
	for _, node := range n.Nodes {
		if node.Role == roleReplica && (len(asked) == 0 || slices.Contains(asked, node.Name)) {
			found = append(found, endpoint{name: node.Name, address: node.Address})
		}
	}
	if len(found) == 0 || len(asked) > len(found) {
		return nil, fmt.Errorf("network file %s: %q: nodes of the database are accepted", n.file, asked)
	}
	return found, nil
}

// channel resolves the channel to use: the one asked for, or the first.
func (n *description) channel(asked string) (string, error) {
	if asked == "" && len(n.Channels) > 0 {
		return n.Channels[0], nil
	}
	if !slices.Contains(n.Channels, asked) {
		return "", fmt.Errorf("channel %q is not in %s: %s are accepted", asked, n.file, strings.Join(n.Channels, ", "))
	}
	return asked, nil
}

// endpoints gives the peers asked for, or all, each with a client of the peer's
// own organisation where there is one.
func (n *description) endpoints(asked []string) ([]endpoint, error) {
	signers := map[string]*identity.SigningIdentity{}
	for _, c := range n.Clients {
		if signers[c.MSPID] != nil {
			continue
		}
		signer, err := identity.LoadSigner(c.MSPID, n.path(c.Cert), n.path(c.Key))
		if err != nil {
			return nil, err
		}
		signers[c.MSPID] = signer
	}
	if len(n.Clients) == 0 {
		return nil, fmt.Errorf("network file %s: no client identity in it", n.file)
	}
	var found []endpoint
	var names []string
	for _, node := range n.Nodes {
		if node.Role != "peer" {
			continue
		}
		names = append(names, node.Name)
		if len(asked) > 0 && !slices.Contains(asked, node.Name) {
			continue
		}
		e := endpoint{name: node.Name, address: node.Address, signer: signers[node.MSPID]}
		if e.signer == nil {
			e.signer = signers[n.Clients[0].MSPID]
		}
		if n.TLS {
			ca, ok := n.TLSCA[node.MSPID]
			if !ok {
				return nil, fmt.Errorf("network file %s: no tls_ca for %s, the organisation of %s", n.file, node.MSPID, node.Name)
			}
			e.tlsCA = n.path(ca)
		}
		found = append(found, e)
	}
	for _, name := range asked {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("peer %q is not in %s: %s are accepted", name, n.file, strings.Join(names, ", "))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("network file %s: no peer in it", n.file)
	}
	return found, nil
}
