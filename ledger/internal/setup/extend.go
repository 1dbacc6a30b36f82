package setup

import (
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// AddOrderer makes the files of one orderer more in a network's folder, after the pattern of its last one. Started, it
// follows the channels, until `config add-consenter` makes it a consenter. It errs where an orderer of the next name has
// left anything.
func AddOrderer(dir string) (*network.Node, error) {
	file, err := network.Load(filepath.Join(dir, network.FileName))
	if err != nil {
		return nil, err
	}
	if !consenters[file.Consenter].grows {
		return nil, fmt.Errorf("%s: orderers that agree by %s: %s is accepted", dir, file.Consenter, named(func(c consenter) bool { return c.grows }))
	}
	f := folder(dir)
	at := lastOrderer(file)
	if at < 0 {
		return nil, fmt.Errorf("%s names no orderer to go by", dir)
	}
	model := file.Nodes[at]
	node, err := after(model, file.Nodes)
	if err != nil {
		return nil, err
	}
	org, err := openOrganisation(f, model.MSPID, file.TLSCA[model.MSPID])
	if err != nil {
		return nil, err
	}
	cfg, err := readConfig(f, model.Config)
	if err != nil {
		return nil, err
	}
	fqdn := node.Name + "." + org.domain
	home := path.Join(org.home, "orderers", fqdn)
	if err := f.unused(node, home); err != nil {
		return nil, err
	}
	if _, err := org.issue(home, fqdn, nodeconfig.RoleOrderer, node.Address); err != nil {
		return nil, err
	}
	cfg.Name, cfg.Data = node.Name, node.Data
	cfg.Identity = nodeconfig.KeyPair{Cert: certFile(home, fqdn), Key: keyFile(home)}
	if cfg.TLS.Enabled {
		cfg.TLS.KeyPair = nodeconfig.KeyPair{Cert: path.Join(home, "tls/server.crt"), Key: path.Join(home, "tls/server.key")}
	}
	if cfg.Address != "" {
		cfg.Address = node.Address
	}
	cfg.Listen, cfg.Operations.Listen = samePort(cfg.Listen, node.Address), samePort(cfg.Operations.Listen, node.Operations)
	if err := cfg.Save(f.path(node.Config)); err != nil {
		return nil, err
	}
	file.Nodes = slices.Insert(file.Nodes, at+1, *node)
	return node, file.Save(dir)
}

// unused errs where there is anything of a node before with that name.
func (f folder) unused(node *network.Node, home string) error {
	for _, name := range []string{home, node.Config, node.Data} {
		switch _, err := os.Lstat(f.path(name)); {
		case err == nil:
			return fmt.Errorf("%s is of an %s that was there before: move it away, and what else there is of that orderer", name, node.Name)
		case !os.IsNotExist(err):
			return err
		}
	}
	return nil
}

func lastOrderer(file *network.File) int {
	at := -1
	for i, n := range file.Nodes {
		if n.Role == nodeconfig.RoleOrderer {
			at = i
		}
	}
	return at
}

var numbered = regexp.MustCompile(`^(.*?)([0-9]+)$`)

// after names and places the node that comes after an orderer, at ports that no other node has.
func after(model network.Node, all []network.Node) (*network.Node, error) {
	parts := numbered.FindStringSubmatch(model.Name)
	if parts == nil {
		return nil, fmt.Errorf("orderer %q: a name that ends in a number is accepted", model.Name)
	}
	number, err := strconv.Atoi(parts[2])
	if err != nil {
		return nil, err
	}
	name := parts[1] + strconv.Itoa(number+1)
	port := 0
	for _, n := range all {
		for _, address := range []string{n.Address, n.Operations, n.Controller} {
			if _, text, err := net.SplitHostPort(address); err == nil {
				if used, err := strconv.Atoi(text); err == nil {
					port = max(port, used)
				}
			}
		}
	}
	place := func(address string, port int) string {
		host, _, _ := net.SplitHostPort(address)
		return net.JoinHostPort(strings.Replace(host, model.Name, name, 1), strconv.Itoa(port))
	}
	rename := func(text string) string { return strings.Replace(text, model.Name, name, 1) }
	node := model
	node.Name, node.Config, node.Data, node.Log = name, rename(model.Config), rename(model.Data), rename(model.Log)
	node.Address, node.Operations = place(model.Address, port+1), place(model.Operations, port+2)
	node.Args = nil
	for _, arg := range model.Args {
		node.Args = append(node.Args, rename(arg))
	}
	if port+2 > 65535 {
		return nil, fmt.Errorf("orderer %s would need port %d, 65535 is the last", name, port+2)
	}
	return &node, nil
}

// samePort is where a node listens that is known at an address.
func samePort(listen, address string) string {
	host, _, _ := net.SplitHostPort(listen)
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort(host, port)
}

// readConfig reads a node's file as it stands, with paths relative to the network's folder.
func readConfig(f folder, name string) (*nodeconfig.Config, error) {
	raw, err := f.read(name)
	if err != nil {
		return nil, err
	}
	var cfg nodeconfig.Config
	return &cfg, yaml.Unmarshal(raw, &cfg)
}

// openOrganisation loads the authorities of an organisation whose TLS authority's certificate is that file.
func openOrganisation(f folder, msp, tlsCert string) (*organisation, error) {
	home := path.Dir(path.Dir(tlsCert))
	o := &organisation{msp: msp, domain: path.Base(home), home: home, folder: f}
	load := func(cert, key string) (*ca.Authority, error) {
		certPEM, err := f.read(path.Join(home, cert))
		if err != nil {
			return nil, err
		}
		keyPEM, err := f.read(path.Join(home, key))
		if err != nil {
			if os.IsNotExist(err) {
				return nil, fmt.Errorf("authority of %s: its key is not in the network's folder: %w", msp, err)
			}
			return nil, err
		}
		return ca.Load(certPEM, keyPEM)
	}
	var err error
	if o.ids, err = load("ca/ca."+o.domain+"-cert.pem", "ca/priv_sk"); err != nil {
		return nil, err
	}
	o.tls, err = load("tlsca/tlsca."+o.domain+"-cert.pem", "tlsca/priv_sk")
	return o, err
}
