package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
)

var log = ops.Logger("gateway")

// Fabric's defaults.
const (
	defaultConcurrency = 500
	defaultTimeout     = 30 * time.Second
)

// waitersPerWorker is how many calls that only wait (for a commit, for events) are
// taken for each that works. Fabric counts both alike; then with blocks of 2 s the
// waiting ones would shut out the working ones.
const waitersPerWorker = 20

// Config wires a gateway to its peer. Channels, Endorser, Commits and Blocks are required.
type Config struct {
	// MSPID is this peer's organisation, and Address the host:port under which the channels' configurations name it.
	MSPID   string
	Address string
	// Channels are the peer's channels.
	Channels Channels
	// Endorser is the peer's own, which is asked without a connection.
	Endorser Endorser
	// Commits tells what became of a transaction, and Blocks the events of blocks.
	Commits Commits
	Blocks  Blocks
	// TLS is whether orderers and other peers are dialled with TLS; the channel's configuration has their roots.
	TLS bool
	// Certificate is shown to them where they ask; it may be nil.
	Certificate *tls.Certificate
	// Signer is this peer, which asks orderers for their histories; nil: they are not asked.
	Signer protoutil.Signer
	// Pace gathers what is written to them; it may be nil.
	Pace *wire.Pacer
	// Registry is for metrics; it may be nil.
	Registry prometheus.Registerer
	// ConcurrencyLimit is how many calls are worked on at once; 0: Fabric's 500.
	ConcurrencyLimit int
	// EndorsementTimeout is for all endorsements of one transaction; 0: Fabric's 30 s.
	EndorsementTimeout time.Duration
	// BroadcastTimeout is for opening a stream to an orderer, and for one answer of it; 0: Fabric's 30 s.
	BroadcastTimeout time.Duration
}

// Server is the Gateway service. Register it on the peer's gRPC server.
type Server struct {
	gatewaypb.UnimplementedGatewayServer
	config  Config
	dialer  *dialer
	cast    *broadcaster
	working limiter
	waiting limiter
	windows windows

	life context.Context // of what outlives a call
	end  context.CancelFunc
}

// New makes the service; Run must be running while it serves.
func New(config Config) (*Server, error) {
	if config.Channels == nil || config.Endorser == nil || config.Commits == nil || config.Blocks == nil {
		return nil, errors.New("gateway: Channels, Endorser, Commits and Blocks are required")
	}
	if config.ConcurrencyLimit <= 0 {
		config.ConcurrencyLimit = defaultConcurrency
	}
	if config.EndorsementTimeout <= 0 {
		config.EndorsementTimeout = defaultTimeout
	}
	if config.BroadcastTimeout <= 0 {
		config.BroadcastTimeout = defaultTimeout
	}
	d := newDialer(config.TLS, config.Certificate, config.Pace)
	life, end := context.WithCancel(context.Background())
	return &Server{
		config: config, dialer: d, cast: newBroadcaster(d, config),
		working: limiter{limit: int64(config.ConcurrencyLimit)},
		waiting: limiter{limit: int64(config.ConcurrencyLimit) * waitersPerWorker},
		windows: windows{limit: config.ConcurrencyLimit, registry: config.Registry, channels: map[string]*window{}},
		life:    life, end: end,
	}, nil
}

// Run keeps the connections to orderers and other peers until ctx ends; then it closes
// them and returns nil.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	s.end()
	s.cast.close()
	s.dialer.close()
	return nil
}

// limiter counts the calls that run and refuses those above a limit.
type limiter struct {
	limit   int64
	running atomic.Int64
}

func (l *limiter) enter() error {
	if l.running.Add(1) > l.limit {
		l.leave()
		return l.exceeded()
	}
	return nil
}

func (l *limiter) exceeded() error {
	return status.Errorf(codes.ResourceExhausted, "too many requests for /gateway.Gateway, exceeding concurrency limit (%d)", l.limit)
}

// wait lets a counted call wait uncounted, so that it does not keep out calls that have work to do.
func (l *limiter) wait(until func() error) error {
	l.leave()
	defer l.running.Add(1)
	return until()
}

func (l *limiter) leave() { l.running.Add(-1) }
