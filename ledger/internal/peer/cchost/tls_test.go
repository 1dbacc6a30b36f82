package cchost_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/contracts/kv"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/shim"
)

// parties are a chaincode's files, and what peers say they are.
type parties struct {
	t         *testing.T
	authority *ca.Authority
}

func (p *parties) pair(name string) (cert, key string) {
	p.t.Helper()
	certPEM, keyPEM, err := p.authority.Issue(ca.Request{CommonName: name, Hosts: []string{"localhost", "127.0.0.1"}})
	require.NoError(p.t, err)
	return string(certPEM), string(keyPEM)
}

func (p *parties) file(name, content string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), name)
	require.NoError(p.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// TestAHalfOfTheFilesIsRefused, with the flags that are missing.
func TestAHalfOfTheFilesIsRefused(t *testing.T) {
	for _, files := range []shim.TLS{{ClientCA: "ca"}, {Cert: "cert"}, {Key: "key", ClientCA: "ca"}} {
		_, err := files.Config()
		assert.ErrorContains(t, err, "--tls-cert and --tls-key", files)
	}
	none, err := (&shim.TLS{}).Config()
	require.NoError(t, err)
	assert.Nil(t, none)
}

// serveSecured runs a chaincode that lets in only peers whose certificate its authority has issued.
func serveSecured(t *testing.T, p *parties) (address string) {
	t.Helper()
	cert, key := p.pair("kv")
	files := shim.TLS{Cert: p.file("cert", cert), Key: p.file("key", key), ClientCA: p.file("ca", string(p.authority.CertPEM()))}
	secured, err := files.Config()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, shim.NewServer("kv:1.0", kv.New(), secured).Serve(ctx, listener))
	}()
	t.Cleanup(func() { cancel(); <-done })
	return listener.Addr().String()
}

func TestPeerAndChaincodeKnowEachOther(t *testing.T) {
	newParties := func() *parties {
		a, err := ca.New("tlsca", "org1")
		require.NoError(t, err)
		return &parties{t, a}
	}
	ours, others := newParties(), newParties()
	address := serveSecured(t, ours)
	connect := func(address string, root, client *parties) *fixture {
		connection := nodeconfig.Connection{Address: address, TLSRequired: true, RootCert: string(root.authority.CertPEM())}
		if client != nil {
			connection.ClientAuthRequired = true
			connection.ClientCert, connection.ClientKey = client.pair("peer0")
		}
		return start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "kv", Address: address, TLS: secure(t, ours, connection)}}})
	}
	let, _ := door(t, address)
	connect(let, ours, ours).await("kv")

	for why, refused := range map[string]func(address string) *fixture{
		"the peer shows no certificate":             func(at string) *fixture { return connect(at, ours, nil) },
		"the peer shows one of another authority":   func(at string) *fixture { return connect(at, ours, others) },
		"the chaincode is not who the peer expects": func(at string) *fixture { return connect(at, others, ours) },
		"the peer speaks in plaintext": func(at string) *fixture {
			return start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "kv", Address: at}}})
		},
	} {
		t.Run(why, func(t *testing.T) {
			at, ended := door(t, address)
			f := refused(at)
			require.Eventually(t, func() bool {
				assert.False(t, f.host.Connected("kv"))
				return ended.Load() >= 3
			}, time.Minute, time.Millisecond, "it dials again and again")
		})
	}
}

// door leads to an address, and counts the connections through it that have ended. A peer that is refused dials again.
func door(t *testing.T, address string) (at string, ended *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ended = &atomic.Int64{}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(far, near)
				_ = far.Close()
			}()
			go func() {
				_, _ = io.Copy(near, far)
				_ = near.Close()
				ended.Add(1)
			}()
		}
	}()
	return listener.Addr().String(), ended
}

func secure(t *testing.T, p *parties, connection nodeconfig.Connection) *tls.Config {
	t.Helper()
	raw, err := json.Marshal(connection)
	require.NoError(t, err)
	_, secured, err := (&nodeconfig.Chaincode{Name: "kv", Connection: p.file("connection.json", string(raw))}).Dial()
	require.NoError(t, err)
	return secured
}
