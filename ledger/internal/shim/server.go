package shim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/qioi/qioi/ledger/internal/serving"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

const (
	// maxMessageBytes is Fabric's own limit for the chaincode stream.
	maxMessageBytes = 100 << 20
	minPing         = 10 * time.Second
)

// Server is a chaincode as a service.
type Server struct {
	peerpb.UnimplementedChaincodeServer
	id       string
	contract Contract
	grpc     *grpc.Server
}

// TLS are the files of a server that peers know by its certificate; PEM.
type TLS struct {
	Cert, Key string
	ClientCA  string // the authority of the peers' certificates; empty: any peer may connect
}

// Config reads the files; nil where none is given.
func (t *TLS) Config() (*tls.Config, error) {
	if *t == (TLS{}) {
		return nil, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, errors.New("the chaincode's TLS certificate or key is missing: --tls-cert and --tls-key, or neither of them nor --client-ca, are accepted")
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("the chaincode's TLS certificate and key: %w", err)
	}
	out := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if t.ClientCA == "" {
		return out, nil
	}
	text, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("the peers' authority: %w", err)
	}
	out.ClientCAs, out.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !out.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the peers' authority %s: a PEM certificate is accepted", t.ClientCA)
	}
	return out, nil
}

// NewServer prepares contract to be served under a chaincode id (NAME:VERSION). Without secured the
// stream is plaintext, as Fabric has it by default: chaincode and peer belong to one operator and one host.
func NewServer(id string, contract Contract, secured *tls.Config) *Server {
	s := &Server{id: id, contract: contract}
	s.grpc = serving.Server(serving.Limits{MessageBytes: maxMessageBytes, MinPing: minPing}, secured,
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}))
	peerpb.RegisterChaincodeServer(s.grpc, s)
	return s
}

// Connect is the stream of one peer.
func (s *Server) Connect(stream grpc.BidiStreamingServer[peerpb.ChaincodeMessage, peerpb.ChaincodeMessage]) error {
	log.Infof("%s: a peer is connected", s.id)
	err := serve(stream, s.id, s.contract)
	log.Infof("%s: a peer is gone (%v)", s.id, err)
	return err
}

// Serve answers peers on listener until ctx ends; then it returns nil.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	// The peer answers its clients that the chaincode is gone.
	if err := serving.Serve(ctx, s.grpc, listener); err != nil {
		return fmt.Errorf("chaincode %s: %w", s.id, err)
	}
	return nil
}
