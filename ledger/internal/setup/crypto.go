package setup

import (
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/network"
)

// organisation is one organisation's two authorities and its folder below crypto/.
type organisation struct {
	msp, domain, home string
	ids, tls          *ca.Authority
	folder            folder
}

func newOrganisation(f folder, msp, domain, home string) (*organisation, error) {
	o := &organisation{msp: msp, domain: domain, home: home, folder: f}
	var err error
	if o.ids, err = ca.New("ca", domain); err != nil {
		return nil, err
	}
	if o.tls, err = ca.New("tlsca", domain); err != nil {
		return nil, err
	}
	if err := f.writeSecret(path.Join(home, "ca/priv_sk"), o.ids.KeyPEM()); err != nil {
		return nil, err
	}
	if err := f.writeSecret(path.Join(home, "tlsca/priv_sk"), o.tls.KeyPEM()); err != nil {
		return nil, err
	}
	if err := f.write(path.Join(home, "ca/ca."+domain+"-cert.pem"), o.ids.CertPEM()); err != nil {
		return nil, err
	}
	if err := f.write(o.tlsCertFile(), o.tls.CertPEM()); err != nil {
		return nil, err
	}
	return o, o.writeTrust(path.Join(home, "msp"))
}

func (o *organisation) tlsCertFile() string {
	return path.Join(o.home, "tlsca/tlsca."+o.domain+"-cert.pem")
}

// writeTrust writes what every msp folder of Fabric's layout repeats.
func (o *organisation) writeTrust(msp string) error {
	cacert := "cacerts/ca." + o.domain + "-cert.pem"
	config := "NodeOUs:\n  Enable: true\n"
	for _, unit := range []string{"Client", "Peer", "Admin", "Orderer"} {
		config += fmt.Sprintf("  %sOUIdentifier:\n    Certificate: %s\n    OrganizationalUnitIdentifier: %s\n", unit, cacert, lower(unit))
	}
	for file, content := range map[string][]byte{
		cacert: o.ids.CertPEM(), "tlscacerts/tlsca." + o.domain + "-cert.pem": o.tls.CertPEM(), "config.yaml": []byte(config),
	} {
		if err := o.folder.write(path.Join(msp, file), content); err != nil {
			return err
		}
	}
	return nil
}

func lower(word string) string { return string(word[0]|0x20) + word[1:] }

// issue makes an identity, and a TLS certificate as well where it listens at some address.
func (o *organisation) issue(home, name, unit, address string) (tlsCert []byte, err error) {
	cert, key, err := o.ids.Issue(ca.Request{CommonName: name, Unit: unit})
	if err != nil {
		return nil, err
	}
	if err := o.folder.write(certFile(home, name), cert); err != nil {
		return nil, err
	}
	if err := o.folder.writeSecret(keyFile(home), key); err != nil {
		return nil, err
	}
	if err := o.writeTrust(path.Join(home, "msp")); err != nil || address == "" {
		return nil, err
	}
	return o.issueTLS(home, name, address)
}

// issueTLS makes a certificate for both directions of a node at that address, and its key, below home.
func (o *organisation) issueTLS(home, name, address string) (tlsCert []byte, err error) {
	hosts := []string{name, "localhost", host, net.IPv6loopback.String()}
	if known := hostOf(address); known != host {
		hosts = append(hosts, known)
	}
	tlsCert, tlsKey, err := o.tls.Issue(ca.Request{CommonName: name, Hosts: hosts})
	if err != nil {
		return nil, err
	}
	if err := o.folder.write(path.Join(home, "tls/server.crt"), tlsCert); err != nil {
		return nil, err
	}
	if err := o.folder.write(path.Join(home, "tls/ca.crt"), o.tls.CertPEM()); err != nil {
		return nil, err
	}
	return tlsCert, o.folder.writeSecret(path.Join(home, "tls/server.key"), tlsKey)
}

// user makes a client identity of the organisation.
func (o *organisation) user(name, unit string) (network.Client, error) {
	full := name + "@" + o.domain
	home := path.Join(o.home, "users", full)
	_, err := o.issue(home, full, unit, "")
	return network.Client{MSPID: o.msp, Name: full, Cert: certFile(home, full), Key: keyFile(home)}, err
}

// folder writes files below a network's folder; names have forward slashes.
type folder string

// path is where a name leads to; one in a node's configuration may be absolute.
func (f folder) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(string(f), filepath.FromSlash(name))
}

func (f folder) write(name string, content []byte) error { return f.put(name, content, 0o644) }

func (f folder) writeSecret(name string, content []byte) error { return f.put(name, content, 0o600) }

func (f folder) read(name string) ([]byte, error) {
	return os.ReadFile(f.path(name))
}

func (f folder) put(name string, content []byte, mode os.FileMode) error {
	full := f.path(name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, content, mode)
}
