package cchost

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/wire"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

var log = ops.Logger("chaincode")

// Errors of Execute, for errors.Is. The error itself says more.
var (
	ErrUnknown      = errors.New("no such chaincode at this peer")
	ErrNotConnected = errors.New("the chaincode is not connected")
	ErrBusy         = errors.New("too many transactions are running in the chaincode")
	ErrRunning      = errors.New("the transaction is already running in the chaincode")
	ErrFailed       = errors.New("transaction returned with failure")
	ErrTimeout      = errors.New("timeout expired while executing transaction")
	// ErrTerminated: Fabric's gateways know this text as "try another peer".
	ErrTerminated = errors.New("chaincode stream terminated")
)

// Defaults of Config. The timeout and the message size are Fabric's.
const (
	defaultTimeout  = 30 * time.Second
	defaultRunning  = 2000
	defaultMessages = 100 << 20
)

// startGrace is how long after the host's own start transactions wait for a chaincode
// that has not been there yet: peers and chaincodes are started together.
const startGrace = 5 * time.Second

// Config says which chaincodes to dial. Zero values mean the defaults.
type Config struct {
	// Chaincodes are those to dial, of distinct names.
	Chaincodes []Chaincode
	// ExecuteTimeout is for one transaction, calls between chaincodes included; 30 s by default. The one whose message a
	// chaincode is not taking just then may take 10 s more.
	ExecuteTimeout time.Duration
	// MaxRunning is how many transactions each chaincode executes at once, beyond which more are refused; 2,000 by default.
	// Ten times as many may run besides for which nobody waits any longer.
	MaxRunning int
	// MaxMessageBytes is the largest message to and from a chaincode; 100 MiB by default.
	MaxMessageBytes int
	// Pace gathers what is written to chaincodes; it may be nil.
	Pace *wire.Pacer
}

// Chaincode is a chaincode process of this peer.
type Chaincode struct {
	Name    string
	Address string      // host:port
	TLS     *tls.Config // nil: in plaintext, for a chaincode on the same host
}

// Host runs transactions in chaincode processes. It is safe for concurrent use.
type Host struct {
	config     Config
	chaincodes map[string]*chaincode
	graceEnds  time.Time
}

// chaincode is a process that is dialled again and again; connection is nil while
// it is away.
type chaincode struct {
	Chaincode
	connection atomic.Pointer[connection]
	seen       chan struct{} // closed when it is connected for the first time
	seenOnce   sync.Once
}

// New prepares a host; Run connects it. It errs on a chaincode that is named twice or
// has no address.
func New(config Config) (*Host, error) {
	if config.ExecuteTimeout <= 0 {
		config.ExecuteTimeout = defaultTimeout
	}
	if config.MaxRunning <= 0 {
		config.MaxRunning = defaultRunning
	}
	if config.MaxMessageBytes <= 0 {
		config.MaxMessageBytes = defaultMessages
	}
	h := &Host{config: config, chaincodes: map[string]*chaincode{}, graceEnds: time.Now().Add(startGrace)}
	for _, cc := range config.Chaincodes {
		if _, _, err := net.SplitHostPort(cc.Address); err != nil {
			return nil, fmt.Errorf("chaincode %q, address %q: host:port is accepted", cc.Name, cc.Address)
		}
		if cc.Name == "" || h.chaincodes[cc.Name] != nil {
			return nil, fmt.Errorf("chaincode name %q: a name that is not empty and given once is accepted", cc.Name)
		}
		h.chaincodes[cc.Name] = &chaincode{Chaincode: cc, seen: make(chan struct{})}
	}
	return h, nil
}

// Run keeps the streams to all chaincodes up until ctx ends; then it returns nil.
func (h *Host) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, cc := range h.chaincodes {
		group.Go(func() error { return h.keepConnected(ctx, cc) })
	}
	return group.Wait()
}

// Connected reports whether a chaincode is there and has registered.
func (h *Host) Connected(name string) bool {
	cc := h.chaincodes[name]
	return cc != nil && cc.connection.Load() != nil
}

// Execute runs one transaction and returns the chaincode's response, whatever its
// status, and the event that it set, if any. An error means that there is no response.
func (h *Host) Execute(ctx context.Context, in Invocation, ledger Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.config.ExecuteTimeout, ErrTimeout)
	defer cancel()
	tx := &transaction{ctx: ctx, in: in, ledger: ledger}
	defer tx.end()
	response, event, err := h.execute(tx, in.Chaincode, in.Input)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to execute transaction %s: %w", in.TxID, err)
	}
	return response, event, nil
}

func (h *Host) execute(tx *transaction, name string, input *peerpb.ChaincodeInput) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	done, err := h.run(tx, name, input)
	if err != nil {
		return nil, nil, fmt.Errorf("chaincode %s: %w", name, err)
	}
	response := &peerpb.Response{}
	if err := proto.Unmarshal(done.GetPayload(), response); err != nil {
		return nil, nil, fmt.Errorf("chaincode %s: %w: its response cannot be read", name, ErrFailed)
	}
	event := done.GetChaincodeEvent()
	if event != nil { // a chaincode must not speak for another, or for another transaction
		event.ChaincodeId, event.TxId = name, tx.in.TxID
	}
	return response, event, nil
}

// run takes a transaction through a chaincode and returns its COMPLETED message.
func (h *Host) run(tx *transaction, name string, input *peerpb.ChaincodeInput) (*peerpb.ChaincodeMessage, error) {
	cc := h.chaincodes[name]
	if cc == nil {
		return nil, ErrUnknown
	}
	conn, err := h.connectionOf(tx, cc)
	if err != nil {
		return nil, err
	}
	payload, err := proto.Marshal(input)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	call, err := conn.begin(tx, name)
	if err != nil {
		return nil, err
	}
	err = conn.send(tx.ctx, &peerpb.ChaincodeMessage{
		Type: peerpb.ChaincodeMessage_TRANSACTION, Payload: payload,
		Txid: tx.in.TxID, ChannelId: tx.in.ChannelID, Proposal: tx.in.SignedProposal,
	})
	if err != nil {
		conn.withdraw(call)
		return nil, err
	}
	select {
	case end := <-call.done:
		return end.msg, end.err
	case <-tx.ctx.Done():
		conn.abandon(call)
		return nil, context.Cause(tx.ctx)
	}
}

func (h *Host) connectionOf(tx *transaction, cc *chaincode) (*connection, error) {
	if conn := cc.connection.Load(); conn != nil {
		return conn, nil
	}
	if wait := time.Until(h.graceEnds); wait > 0 {
		grace := time.NewTimer(wait)
		defer grace.Stop()
		select {
		case <-cc.seen:
		case <-grace.C:
		case <-tx.ctx.Done():
			return nil, context.Cause(tx.ctx)
		}
	}
	if conn := cc.connection.Load(); conn != nil {
		return conn, nil
	}
	return nil, fmt.Errorf("%w (%s)", ErrNotConnected, cc.Address)
}
