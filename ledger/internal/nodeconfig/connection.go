package nodeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Connection is Fabric's connection.json, which a package of chaincode-as-a-service holds:
// where the chaincode's server listens, and by which certificates both sides know each other.
type Connection struct {
	Address            string `json:"address"`
	DialTimeout        string `json:"dial_timeout,omitempty"` // accepted, and not needed: the peer dials until the chaincode is there
	TLSRequired        bool   `json:"tls_required"`
	ClientAuthRequired bool   `json:"client_auth_required,omitempty"`
	ClientKey          string `json:"client_key,omitempty"` // PEM, as the others
	ClientCert         string `json:"client_cert,omitempty"`
	RootCert           string `json:"root_cert,omitempty"`
}

// Dial says where the chaincode listens and how to secure the connection; nil: not at all.
func (c *Chaincode) Dial() (address string, secured *tls.Config, err error) {
	if c.Connection == "" {
		return c.Address, nil, nil
	}
	raw, err := os.ReadFile(c.Connection)
	if err != nil {
		return "", nil, fmt.Errorf("chaincode %s: %w", c.Name, err)
	}
	var connection Connection
	if err = json.Unmarshal(raw, &connection); err == nil {
		secured, err = connection.secured()
	}
	if err != nil {
		return "", nil, fmt.Errorf("chaincode %s: connection %s: %w", c.Name, c.Connection, err)
	}
	return connection.Address, secured, nil
}

func (c *Connection) secured() (*tls.Config, error) {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return nil, fmt.Errorf("address %q: host:port is accepted", c.Address)
	}
	if c.DialTimeout != "" {
		if _, err := time.ParseDuration(c.DialTimeout); err != nil {
			return nil, fmt.Errorf("dial_timeout %q: a duration such as 10s is accepted", c.DialTimeout)
		}
	}
	if !c.TLSRequired {
		if c.ClientAuthRequired {
			return nil, errors.New("client_auth_required without tls_required")
		}
		if c.RootCert != "" || c.ClientCert != "" || c.ClientKey != "" {
			return nil, errors.New("root_cert, client_cert or client_key without tls_required: tls_required: true, or none of them, is accepted")
		}
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.RootCert)) {
		return nil, errors.New("root_cert: the PEM certificate of the server's authority is accepted")
	}
	out := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if c.ClientAuthRequired {
		pair, err := tls.X509KeyPair([]byte(c.ClientCert), []byte(c.ClientKey))
		if err != nil {
			return nil, fmt.Errorf("client_cert and client_key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
