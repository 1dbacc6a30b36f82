package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
)

// RenewTLS gives a node a new TLS key and certificate in place of those it has, also where a peer shows them to its
// chaincodes. After an error the node has a pair that fits.
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
	shown, err := f.read(cfg.TLS.Cert)
	if err != nil {
		return err
	}
	home := path.Dir(path.Dir(cfg.TLS.Cert))
	if err := org.renew(home, node.Address); err != nil {
		return err
	}
	for _, chaincode := range cfg.Chaincodes {
		if chaincode.Connection == "" {
			continue
		}
		if err := f.showAnew(chaincode.Connection, string(shown), path.Join(home, "tls")); err != nil {
			return fmt.Errorf("chaincode %s: connection %s still has the old certificate: %w", chaincode.Name, chaincode.Connection, err)
		}
	}
	return nil
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

// showAnew replaces the pair that a peer shows to a chaincode by the one in that folder, if it was the peer's own.
func (f folder) showAnew(connection, shown, pair string) error {
	raw, err := f.read(connection)
	if err != nil {
		return err
	}
	var c nodeconfig.Connection
	if err := json.Unmarshal(raw, &c); err != nil || c.ClientCert != shown {
		return err
	}
	cert, err := f.read(path.Join(pair, "server.crt"))
	if err != nil {
		return err
	}
	key, err := f.read(path.Join(pair, "server.key"))
	if err != nil {
		return err
	}
	c.ClientCert, c.ClientKey = string(cert), string(key)
	if raw, err = json.MarshalIndent(c, "", "  "); err != nil {
		return err
	}
	return durable.WriteFile(f.path(connection), raw)
}

func (f folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }
