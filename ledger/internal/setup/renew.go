package setup

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// RenewTLS gives a node a new TLS key and certificate in place of those it has, also where a peer shows them to its
// chaincodes. Until both parts of the new pair are made the node has its old one.
func RenewTLS(dir, name string) error {
	file, err := network.Load(filepath.Join(dir, network.FileName))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(file.Nodes, func(n network.Node) bool { return n.Name == name && n.Config != "" })
	if at < 0 {
		return fmt.Errorf("node %q: an orderer or a peer of %s is accepted", name, dir)
	}
	node, f := file.Nodes[at], folder(dir)
	cfg, err := readConfig(f, node.Config)
	if err != nil {
		return err
	}
	if !cfg.TLS.Enabled {
		return fmt.Errorf("node %s has no TLS certificate: TLS is off", name)
	}
	org, err := openOrganisation(f, node.MSPID, file.TLSCA[node.MSPID])
	if err != nil {
		return err
	}
	home := path.Dir(path.Dir(cfg.TLS.Cert))
	shown, err := org.shown(path.Base(home), cfg.Chaincodes)
	if err != nil {
		return err
	}
	if err := org.renew(home, node.Address); err != nil {
		return err
	}
	return f.showAnew(shown, path.Join(home, "tls"))
}

// shown are the connections to chaincodes, by their files, to which a peer of that name shows a pair of its own, be it of
// now or from before. Another pair is its operator's.
func (o *organisation) shown(name string, chaincodes []nodeconfig.Chaincode) (map[string]*nodeconfig.Connection, error) {
	issuer, err := x509.ParseCertificate(channelconfig.CertificateDER(o.tls.CertPEM()))
	if err != nil {
		return nil, err
	}
	all := map[string]*nodeconfig.Connection{}
	for _, chaincode := range chaincodes {
		if chaincode.Connection == "" {
			continue
		}
		file, c := o.folder.path(chaincode.Connection), &nodeconfig.Connection{}
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, c)
		}
		if err != nil {
			return nil, fmt.Errorf("chaincode %s: connection %s: %w", chaincode.Name, chaincode.Connection, err)
		}
		cert, err := x509.ParseCertificate(channelconfig.CertificateDER([]byte(c.ClientCert)))
		if err == nil && cert.Subject.CommonName == name && cert.CheckSignatureFrom(issuer) == nil {
			all[file] = c
		}
	}
	return all, nil
}

// renew puts a new pair into a home, of which both parts are made before the first one is replaced.
func (o *organisation) renew(home, address string) (err error) {
	made := home + ".renewed"
	defer func() { err = errors.Join(err, os.RemoveAll(o.folder.path(made))) }()
	if _, err := o.issueTLS(made, path.Base(home), address); err != nil {
		return err
	}
	pair := []string{"tls/server.key", "tls/server.crt"}
	for _, part := range pair {
		if err := keepOwner(o.folder.path(path.Join(made, part)), o.folder.path(path.Join(home, part))); err != nil {
			return err
		}
	}
	for _, part := range pair {
		if err := os.Rename(o.folder.path(path.Join(made, part)), o.folder.path(path.Join(home, part))); err != nil {
			return err
		}
	}
	return durable.SyncDir(o.folder.path(path.Join(home, "tls")))
}

// keepOwner gives a new file the owner and the mode of the one that it is to replace, and makes it durable.
func keepOwner(made, old string) error {
	found, err := os.Stat(old)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(made, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	owner := found.Sys().(*syscall.Stat_t)
	return errors.Join(file.Chown(int(owner.Uid), int(owner.Gid)), file.Chmod(found.Mode()), file.Sync(), file.Close())
}

// showAnew has a peer show the pair in that folder to its chaincodes.
func (f folder) showAnew(connections map[string]*nodeconfig.Connection, pair string) error {
	cert, err := f.read(path.Join(pair, "server.crt"))
	if err != nil {
		return err
	}
	key, err := f.read(path.Join(pair, "server.key"))
	if err != nil {
		return err
	}
	var errs []error
	for file, c := range connections {
		c.ClientCert, c.ClientKey = string(cert), string(key)
		raw, err := json.MarshalIndent(c, "", "  ")
		if err == nil {
			err = durable.WriteFile(file, raw)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("connection %s still has the old certificate: %w", file, err))
		}
	}
	return errors.Join(errs...)
}
