package configtool

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/setup"
)

// admins is where an organisation's folder has its administrators.
const admins = "users/Admin@*/msp"

// folder is a network's description and the folder it lies in.
type folder struct {
	*network.File
	dir string
}

func openFolder(file string) (*folder, error) {
	described, err := network.Load(file)
	if err != nil {
		return nil, err
	}
	return &folder{File: described, dir: filepath.Dir(file)}, nil
}

// admin loads an organisation's administrator, whose key `init` left in the folder.
func (f *folder) admin(mspID string) (*identity.SigningIdentity, error) {
	tlsCA, ok := f.TLSCA[mspID]
	if !ok {
		return nil, fmt.Errorf("organisation %q is not in the network: %s are", mspID, strings.Join(f.organisations(), ", "))
	}
	cert, err := single(filepath.Join(f.home(tlsCA), admins, "signcerts", "*.pem"))
	if err != nil {
		return nil, fmt.Errorf("administrator of %s: %w", mspID, err)
	}
	key, err := single(filepath.Join(f.home(tlsCA), admins, "keystore", "*"))
	if err != nil {
		return nil, fmt.Errorf("administrator of %s: %w", mspID, err)
	}
	return identity.LoadSigner(mspID, cert, key)
}

// hasKey says whether an organisation's administrator has a key in the folder.
func (f *folder) hasKey(mspID string) bool {
	tlsCA, ok := f.TLSCA[mspID]
	found, _ := filepath.Glob(filepath.Join(f.home(tlsCA), admins, "keystore", "*")) // admin says what is wrong with it
	return ok && len(found) > 0
}

// home is an organisation's folder: its TLS authority is crypto/peerOrganizations/DOMAIN/tlsca/tlsca.DOMAIN-cert.pem.
func (f *folder) home(tlsCA string) string {
	return filepath.Join(f.dir, filepath.FromSlash(tlsCA), "..", "..")
}

// authority loads the one that issues an organisation's identities.
func (f *folder) authority(mspID string) (*ca.Authority, error) {
	tlsCA, ok := f.TLSCA[mspID]
	if !ok {
		return nil, fmt.Errorf("organisation %q is not in the network: %s are", mspID, strings.Join(f.organisations(), ", "))
	}
	cert, err := single(filepath.Join(f.home(tlsCA), "ca", "*.pem"))
	if err != nil {
		return nil, fmt.Errorf("authority of %s: %w", mspID, err)
	}
	certPEM, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(filepath.Dir(cert), "priv_sk"))
	if err != nil {
		return nil, err
	}
	return ca.Load(certPEM, keyPEM)
}

// organisations lists those whose administrators' keys may be in the folder, the orderers' last.
func (f *folder) organisations() (out []string) {
	for _, c := range f.Clients {
		out = append(out, c.MSPID)
	}
	if msp := f.ordererMSP(); msp != "" {
		out = append(out, msp)
	}
	return out
}

func (f *folder) ordererMSP() string {
	for _, n := range f.Nodes {
		if n.Role == "orderer" {
			return n.MSPID
		}
	}
	return ""
}

// client talks to the network's orderers as the first administrator of these.
func (f *folder) client(channel string, signer *identity.SigningIdentity) (*client, error) {
	if channel == "" && len(f.Channels) > 0 {
		channel = f.Channels[0]
	}
	if !slices.Contains(f.Channels, channel) {
		return nil, fmt.Errorf("--channel %q is not in the network: %s are accepted", channel, strings.Join(f.Channels, ", "))
	}
	var addresses []string
	for _, n := range f.Nodes {
		if n.Role == "orderer" {
			addresses = append(addresses, n.Address)
		}
	}
	tlsCA := ""
	if f.TLS {
		tlsCA = filepath.Join(f.dir, filepath.FromSlash(f.TLSCA[f.ordererMSP()]))
	}
	// The folder says what orderers these are: they themselves might lie about it.
	need := channelconfig.Answers(setup.ConsensusType(f.Consenter), len(addresses))
	return newClient(channel, addresses, need, tlsCA, signer)
}

// readOrganisation makes a patch of a folder "msp" as Fabric lays it out: cacerts and tlscacerts, and where they are there
// intermediatecerts, tlsintermediatecerts and crls.
func readOrganisation(mspID, dir string, peers []string) (patch channelconfig.Patch, err error) {
	org := channelconfig.OrganisationPatch{MSPID: mspID, Peers: peers}
	for sub, into := range map[string]*string{"cacerts": &org.RootCert, "tlscacerts": &org.TLSCert} {
		file, err := single(filepath.Join(dir, sub, "*"))
		if err != nil {
			return patch, fmt.Errorf("organisation %s: %w", mspID, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return patch, err
		}
		*into = string(text)
	}
	var revoked []string
	for sub, into := range map[string]*[]string{
		"intermediatecerts": &org.IntermediateCerts, "tlsintermediatecerts": &org.TLSIntermediateCerts, "crls": &revoked,
	} {
		kind, parse := "CERTIFICATE", isCertificate
		if sub == "crls" {
			kind, parse = "X509 CRL", isRevocationList
		}
		if *into, err = readAll(filepath.Join(dir, sub, "*"), kind, parse); err != nil {
			return patch, fmt.Errorf("organisation %s: %w", mspID, err)
		}
	}
	patch.Organisations = []channelconfig.OrganisationPatch{org}
	if len(revoked) > 0 {
		patch.RevocationLists = map[string][]string{mspID: revoked}
	}
	return patch, nil
}

// readAll reads what files hold, PEM of any number or DER, and gives each by itself in PEM.
func readAll(pattern, kind string, parse func(der []byte) error) (all []string, err error) {
	found, err := visible(pattern)
	if err != nil {
		return nil, err
	}
	for _, file := range found {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		block, rest := pem.Decode(text)
		if block == nil && len(bytes.TrimSpace(text)) > 0 {
			block = &pem.Block{Bytes: text}
		}
		for ; block != nil; block, rest = pem.Decode(rest) {
			if err := parse(block.Bytes); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: block.Bytes})))
		}
	}
	return all, nil
}

func isCertificate(der []byte) error {
	_, err := x509.ParseCertificate(der)
	return err
}

func isRevocationList(der []byte) error {
	_, err := x509.ParseRevocationList(der)
	return err
}

func single(pattern string) (string, error) {
	found, err := visible(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: one file is accepted, %d are there", pattern, len(found))
	}
	return found[0], nil
}

// visible leaves out what repositories (.gitkeep) and Kubernetes' mounts (..data) have beside the files.
func visible(pattern string) ([]string, error) {
	found, err := filepath.Glob(pattern)
	return slices.DeleteFunc(found, func(file string) bool { return strings.HasPrefix(filepath.Base(file), ".") }), err
}
