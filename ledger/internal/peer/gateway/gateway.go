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

// Config wires a gateway to its peer.
type Config struct {
	MSPID    string // of this peer
	Address  string // of this peer, as the channel's configuration names it
	Channels Channels
	Endorser Endorser
	Commits  Commits
	Blocks   Blocks

	TLS         bool             // towards orderers and other peers; roots come from the channel's configuration
	Certificate *tls.Certificate // shown to them where they ask; may be nil

	Pace *wire.Pacer // of what is written to them; may be nil

	Registry prometheus.Registerer // for metrics; may be nil

	// Zero values mean Fabric's defaults: 500 calls at once, 30 s, 30 s.
	ConcurrencyLimit   int
	EndorsementTimeout time.Duration // of all of one transaction's endorsements
	BroadcastTimeout   time.Duration // of one orderer's answer
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
		config: config, dialer: d, cast: newBroadcaster(d, config.BroadcastTimeout),
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

// wait lets a call that is counted wait uncounted, so that it keeps nobody out who has work to do.
func (l *limiter) wait(until func() error) error {
	l.leave()
	defer l.running.Add(1)
	return until()
}

func (l *limiter) leave() { l.running.Add(-1) }
