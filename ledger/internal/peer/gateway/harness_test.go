package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/endorser"
	"github.com/qioi/qioi/ledger/internal/peer/gateway"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/syscc"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// contract stands for a chaincode at one peer.
type contract func(ctx context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error)

func (c contract) Execute(ctx context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	return c(ctx, in, ledger)
}

// writes puts one key and answers with a payload.
func writes(key, value string) contract {
	return func(_ context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		err := ledger.PutState(in.Chaincode, key, []byte(value))
		return &peerpb.Response{Status: 200, Payload: []byte("done")}, nil, err
	}
}

// answers gives a response and writes nothing.
func answers(code int32, message string) contract {
	return func(context.Context, cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		return &peerpb.Response{Status: code, Message: message}, nil, nil
	}
}

var away contract = func(context.Context, cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	return nil, nil, cchost.ErrNotConnected
}

var unknown contract = func(context.Context, cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	return nil, nil, cchost.ErrUnknown
}

// stuck waits until its caller gives up.
var stuck contract = func(ctx context.Context, _ cchost.Invocation, _ cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// state is an empty channel for endorsers.
type state struct{ bundle *channelconfig.Bundle }

func (s state) Bundle() *channelconfig.Bundle       { return s.bundle }
func (s state) Told() *statedb.Snapshot             { return s.Snapshot() }
func (s state) Snapshot() *statedb.Snapshot         { return statedb.New().Snapshot() }
func (s state) Exists(validate.TxKey) (bool, error) { return false, nil }

// orderer is a scripted AtomicBroadcast service.
type orderer struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	address string
	server  *grpc.Server
	serve   func(ordererpb.AtomicBroadcast_BroadcastServer) error

	mu  sync.Mutex
	got []*commonpb.Envelope
}

func (o *orderer) Broadcast(st ordererpb.AtomicBroadcast_BroadcastServer) error { return o.serve(st) }

func (o *orderer) note(env *commonpb.Envelope) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, env)
}

func (o *orderer) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.got)
}

// saying answers each envelope alike.
func (o *orderer) saying(code commonpb.Status, info string) {
	o.serve = func(st ordererpb.AtomicBroadcast_BroadcastServer) error {
		for {
			env, err := st.Recv()
			if err != nil {
				return nil
			}
			o.note(env)
			if err := st.Send(&ordererpb.BroadcastResponse{Status: code, Info: info}); err != nil {
				return nil
			}
		}
	}
}

// fixture is a gateway at a peer of Org1, with real peers and orderers over TLS around it.
type fixture struct {
	*peertest.World
	t        *testing.T
	gateway  *gateway.Server
	client   gatewaypb.GatewayClient
	peers    map[string]*contract // by name: peer0-org1 is the gateway's own
	address  map[string]string
	servers  map[string]*grpc.Server
	orderers []*orderer
	ledger   *ledger
}

// ledger is what the gateway asks about commits and blocks.
type ledger struct {
	bundle *channelconfig.Bundle
	mu     sync.Mutex
	grown  chan struct{}
	blocks []*commonpb.Block
	fates  map[string]peerpb.TxValidationCode
	at     map[string]uint64
	damage error // of BlockOf

	waiting atomic.Int64 // calls that wait for a block
}

func (l *ledger) Bundle(channel string) *channelconfig.Bundle {
	if channel != peertest.Channel {
		return nil
	}
	return l.bundle
}

// add commits a block of transactions that are valid unless said otherwise.
func (l *ledger) add(w *peertest.World, codes map[string]peerpb.TxValidationCode, txs ...[]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flags := make([]byte, len(txs))
	for i, tx := range txs {
		id := txID(w.T, tx)
		flags[i] = byte(codes[id])
		l.fates[id], l.at[id] = codes[id], uint64(len(l.blocks))
	}
	slots := make([][]byte, 5)
	slots[commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER] = flags
	l.blocks = append(l.blocks, &commonpb.Block{
		Header: &commonpb.BlockHeader{Number: uint64(len(l.blocks))}, Data: &commonpb.BlockData{Data: txs},
		Metadata: &commonpb.BlockMetadata{Metadata: slots},
	})
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *ledger) until(ctx context.Context, ready func() bool) error {
	for {
		l.mu.Lock()
		ok, grown := ready(), l.grown
		l.mu.Unlock()
		if ok {
			return nil
		}
		l.waiting.Add(1)
		select {
		case <-grown:
		case <-ctx.Done():
		}
		l.waiting.Add(-1)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (l *ledger) Status(ctx context.Context, _, id string) (code peerpb.TxValidationCode, block uint64, err error) {
	err = l.until(ctx, func() (known bool) {
		code, known = l.fates[id]
		block = l.at[id]
		return known
	})
	return code, block, err
}

func (l *ledger) Height(string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.blocks)), nil
}

func (l *ledger) Block(ctx context.Context, _ string, n uint64) (block *commonpb.Block, err error) {
	err = l.until(ctx, func() bool {
		if n < uint64(len(l.blocks)) {
			block = l.blocks[n]
		}
		return block != nil
	})
	return block, err
}

func (l *ledger) BlockOf(_, id string) (uint64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.at[id]
	return n, ok, l.damage
}

func txID(t testing.TB, raw []byte) string {
	var env commonpb.Envelope
	var payload commonpb.Payload
	var header commonpb.ChannelHeader
	require.NoError(t, proto.Unmarshal(raw, &env))
	require.NoError(t, proto.Unmarshal(env.Payload, &payload))
	require.NoError(t, proto.Unmarshal(payload.Header.ChannelHeader, &header))
	return header.TxId
}

// start brings up a network; change may set limits of the gateway.
func start(t *testing.T, change func(*gateway.Config)) *fixture {
	t.Helper()
	return startIn(t, channelconfig.Block, change)
}

// startIn does so for a channel that orders in that mode.
func startIn(t *testing.T, mode channelconfig.Mode, change func(*gateway.Config)) *fixture {
	t.Helper()
	return startWith(t, peertest.Options{Mode: mode}, change)
}

func startWith(t *testing.T, options peertest.Options, change func(*gateway.Config)) *fixture {
	t.Helper()
	authority, err := ca.New("tlsca", "example.com")
	require.NoError(t, err)
	certPEM, keyPEM, err := authority.Issue(ca.Request{CommonName: "node", Hosts: []string{"127.0.0.1"}})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	creds := credentials.NewServerTLSFromCert(&pair)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	serve := func(l net.Listener, register func(*grpc.Server)) *grpc.Server {
		server := grpc.NewServer(grpc.Creds(creds), grpc.MaxRecvMsgSize(100<<20))
		register(server)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		return server
	}
	f := &fixture{t: t, peers: map[string]*contract{}, address: map[string]string{}, servers: map[string]*grpc.Server{}}
	options.TLSCert, options.Peers = authority.CertPEM(), map[string][]string{}
	listeners := map[string]net.Listener{}
	for _, name := range []string{"peer0-org1", "peer1-org1", "peer0-org2", "peer1-org2"} {
		l := listen()
		msp := "Org" + name[len(name)-1:] + "MSP"
		listeners[name], f.address[name] = l, l.Addr().String()
		options.Peers[msp] = append(options.Peers[msp], l.Addr().String())
	}
	for range max(3, 3*options.Liars+1) {
		l := listen()
		o := &orderer{address: l.Addr().String()}
		o.saying(commonpb.Status_SUCCESS, "")
		o.server = serve(l, func(s *grpc.Server) { ordererpb.RegisterAtomicBroadcastServer(s, o) })
		f.orderers = append(f.orderers, o)
		options.Orderers = append(options.Orderers, o.address)
	}
	f.World = peertest.New(t, options)
	// The gateway asks them in the order of their addresses.
	for i, address := range f.Bundle.Orderer.Addresses {
		for j, o := range f.orderers {
			if o.address == address {
				f.orderers[i], f.orderers[j] = f.orderers[j], f.orderers[i]
			}
		}
	}
	f.ledger = &ledger{bundle: f.Bundle, grown: make(chan struct{}), fates: map[string]peerpb.TxValidationCode{}, at: map[string]uint64{}}
	config := gateway.Config{
		MSPID: "Org1MSP", Address: f.address["peer0-org1"], Channels: f.ledger, Commits: f.ledger, Blocks: f.ledger, TLS: true,
	}
	for name, l := range listeners {
		c := writes("k", "v")
		f.peers[name] = &c
		unit, msp := "peer", "Org"+name[len(name)-1:]+"MSP"
		var signer *identity.SigningIdentity
		if name[4] == '0' {
			signer = f.Signer(msp, unit)
		} else { // another certificate than peer0's
			cert, key, err := f.CAs[msp].Issue(ca.Request{CommonName: name, Unit: unit})
			require.NoError(t, err)
			signer, err = identity.NewSigner(msp, cert, key)
			require.NoError(t, err)
		}
		e := endorser.New(signer, func(id string) endorser.Channel {
			if id != peertest.Channel {
				return nil
			}
			return state{f.Bundle}
		}, contract(func(ctx context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
			return (*f.peers[name])(ctx, in, ledger)
		}), syscc.New(msp, nil), nil)
		if name == "peer0-org1" {
			config.Endorser = e
			continue
		}
		f.servers[name] = serve(l, func(s *grpc.Server) { peerpb.RegisterEndorserServer(s, &endorser.Service{Endorser: e}) })
	}
	if change != nil {
		change(&config)
	}
	g, err := gateway.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); assert.NoError(t, g.Run(ctx)) }()
	t.Cleanup(func() { cancel(); <-done })
	serve(listeners["peer0-org1"], func(s *grpc.Server) { gatewaypb.RegisterGatewayServer(s, g) })
	conn, err := grpc.NewClient(config.Address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: f.Bundle.Orgs["Org1MSP"].TLSRoots, MinVersion: tls.VersionTLS12,
	})))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	f.gateway, f.client = g, gatewaypb.NewGatewayClient(conn)
	return f
}

func (f *fixture) set(name string, c contract) { *f.peers[name] = c }

func (f *fixture) request(p peertest.Proposal) *gatewaypb.EndorseRequest {
	signed, id := f.Propose(p)
	return &gatewaypb.EndorseRequest{TransactionId: id, ChannelId: peertest.Channel, ProposedTransaction: signed}
}

// described is an error as a client sees it: code, message and details, the addresses by name.
func (f *fixture) described(err error) string {
	var st interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &st) {
		return fmt.Sprint(err)
	}
	s := st.GRPCStatus()
	text := fmt.Sprintf("%s: %s", s.Code(), s.Message())
	for _, d := range s.Details() {
		detail := d.(*gatewaypb.ErrorDetail)
		who := detail.Address
		for name, address := range f.address {
			if address == who {
				who = name
			}
		}
		for i, o := range f.orderers {
			if o.address == who {
				who = fmt.Sprintf("orderer%d", i)
			}
		}
		text += fmt.Sprintf("\n%s %s: %s", who, detail.MspId, detail.Message)
	}
	return text
}
