package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/porttest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// orderer is the other end: it hands out what it receives and answers what it is told to.
type orderer struct {
	ordererpb.UnimplementedClusterServer
	got     chan *ordererpb.StepRequest
	answers chan *ordererpb.StepResponse
	server  *grpc.Server
	address string
	tls     *tls.Config
}

func (o *orderer) Step(stream ordererpb.Cluster_StepServer) error {
	go func() {
		for {
			select {
			case a := <-o.answers:
				_ = stream.Send(a)
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		o.got <- request
	}
}

// serve starts it, again after a stop.
func (o *orderer) serve(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", o.address)
	require.NoError(t, err)
	o.address = l.Addr().String()
	o.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(o.tls)), grpc.MaxRecvMsgSize(8<<20))
	ordererpb.RegisterClusterServer(o.server, o)
	server := o.server
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
}

// refusal is which remote has said what.
type refusal struct {
	by   *Remote
	info string
}

// events notes what it is told.
type events struct {
	mu      sync.Mutex
	down    int
	settles []bool
	refused chan refusal
}

func (e *events) Down(*Remote) { e.mu.Lock(); defer e.mu.Unlock(); e.down++ }

// settled notes what became of a message.
func (e *events) settled(left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settles = append(e.settles, left)
}

func (e *events) Refused(by *Remote, r *ordererpb.SubmitResponse) { e.refused <- refusal{by, r.Info} }

func (e *events) downs() int { e.mu.Lock(); defer e.mu.Unlock(); return e.down }

func (e *events) sent() []bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]bool{}, e.settles...)
}

func issue(t *testing.T, a *ca.Authority) *tls.Certificate {
	t.Helper()
	cert, key, err := a.Issue(ca.Request{CommonName: "orderer", Hosts: []string{"127.0.0.1"}})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	return &pair
}

// connect starts an orderer and a remote to it, which pins the certificate it is given.
func connect(t *testing.T, pin func(own []byte) []byte) (*orderer, *Remote, *events) {
	t.Helper()
	a, err := ca.New("tlsca", "example.com")
	require.NoError(t, err)
	theirs, ours := issue(t, a), issue(t, a)
	o := &orderer{
		got: make(chan *ordererpb.StepRequest, 64), answers: make(chan *ordererpb.StepResponse), address: net.JoinHostPort("127.0.0.1", strconv.Itoa(porttest.Take(t))),
		tls: &tls.Config{Certificates: []tls.Certificate{*theirs}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	o.serve(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.CertPEM())
	conn, err := Dial(o.address, ours, roots, pin(theirs.Certificate[0]), 8<<20)
	require.NoError(t, err)
	e := &events{refused: make(chan refusal, 8)}
	r := NewRemote(o.address, conn, e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	return o, r, e
}

func right(own []byte) []byte { return own }

func message(index uint64) consensus.Message {
	return consensus.Message{Payload: &raftpb.Message{From: proto.Uint64(1), To: proto.Uint64(2), Index: proto.Uint64(index)}}
}

// told is a message whose sender waits to hear whether it left.
func (e *events) told(index uint64) consensus.Message {
	m := message(index)
	m.Sent = e.settled
	return m
}

// indexOf reads a Raft message back.
func indexOf(t *testing.T, r *ordererpb.StepRequest) uint64 {
	t.Helper()
	var m raftpb.Message
	require.NoError(t, proto.Unmarshal(r.GetConsensusRequest().GetPayload(), &m))
	assert.Equal(t, "ch", r.GetConsensusRequest().Channel)
	return m.GetIndex()
}

func TestMessagesArriveInOrder(t *testing.T) {
	o, r, e := connect(t, right)
	for i := range uint64(20) {
		r.Send("ch", message(i))
	}
	for i := range uint64(20) {
		assert.Equal(t, i, indexOf(t, <-o.got))
	}
	require.NoError(t, r.Submit("ch", 7, &commonpb.Envelope{Payload: []byte("tx")}))
	submitted := (<-o.got).GetSubmitRequest()
	assert.Equal(t, uint64(7), submitted.LastValidationSeq)
	assert.Equal(t, "tx", string(submitted.Payload.Payload))
	o.answers <- &ordererpb.StepResponse{Payload: &ordererpb.StepResponse_SubmitRes{SubmitRes: &ordererpb.SubmitResponse{Info: "no"}}}
	assert.Equal(t, refusal{r, "no"}, <-e.refused)
	r.Send("ch", e.told(3))
	assert.Equal(t, uint64(3), indexOf(t, <-o.got))
	require.Eventually(t, func() bool { return len(e.sent()) == 1 }, time.Minute, time.Millisecond)
	assert.Equal(t, []bool{true}, e.sent())
}

func TestAnOrdererThatComesBackIsFound(t *testing.T) {
	o, r, e := connect(t, right)
	r.Send("ch", message(1))
	assert.Equal(t, uint64(1), indexOf(t, <-o.got))
	before := e.downs()
	o.server.Stop()
	require.Eventually(t, func() bool { return e.downs() > before }, time.Minute, time.Millisecond)
	o.serve(t)
	// What is sent while there is no stream may be lost: Raft repeats, and so does this.
	for stop := time.After(time.Minute); ; {
		r.Send("ch", message(2))
		select {
		case got := <-o.got:
			assert.Equal(t, uint64(2), indexOf(t, got))
			return
		case <-stop:
			t.Fatal("it was not found again")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestOnlyTheCertificateThatTheChannelNamesIsTrusted(t *testing.T) {
	a, err := ca.New("tlsca", "example.com")
	require.NoError(t, err)
	other := issue(t, a).Certificate[0]
	o, r, e := connect(t, func([]byte) []byte { return other })
	r.Send("ch", e.told(1))
	require.Eventually(t, func() bool { return e.downs() > 1 && len(e.sent()) > 0 }, time.Minute, time.Millisecond)
	assert.False(t, e.sent()[0], "the sender learns that its snapshot did not leave")
	assert.Empty(t, o.got)
}

func TestWhatDoesNotFitIsLostAndSaidSo(t *testing.T) {
	conn, err := Dial("127.0.0.1:1", nil, nil, nil, 1<<20)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	e := &events{}
	r := NewRemote("127.0.0.1:1", conn, e) // nothing takes anything out of its queue
	for i := range uint64(queued) {
		r.Send("ch", message(i))
	}
	require.ErrorIs(t, r.Submit("ch", 0, &commonpb.Envelope{}), ErrOverload)
	r.Send("ch", message(0)) // it does not block
	r.Send("ch", e.told(0))
	assert.Equal(t, []bool{false}, e.sent())

	r.discard()
	large := &commonpb.Envelope{Payload: make([]byte, 1<<20)}
	for range 2 {
		for range queuedBytes >> 20 {
			require.NoError(t, r.Submit("ch", 0, large))
		}
		require.ErrorIs(t, r.Submit("ch", 0, large), ErrOverload)
		r.Send("ch", message(0)) // Raft's messages are small, or in the log
		require.Equal(t, queuedBytes>>20+1, r.Queued())
		r.discard()
	}
	require.NoError(t, r.Submit("ch", 0, &commonpb.Envelope{Payload: make([]byte, queuedBytes+1)}), "a larger one waits alone")
	require.ErrorIs(t, r.Submit("ch", 0, large), ErrOverload)
}

// firstDown says what was settled when it was first told that the stream broke.
type firstDown struct {
	*events
	settled chan []bool
}

func (d *firstDown) Down(*Remote) {
	select {
	case d.settled <- d.sent():
	default:
	}
}

// TestDownTellsOfAllThatIsLost: what is lost after it nobody would be told of.
func TestDownTellsOfAllThatIsLost(t *testing.T) {
	conn, err := Dial("127.0.0.1:1", nil, nil, nil, 1<<20)
	require.NoError(t, err)
	e := &firstDown{&events{}, make(chan []bool, 1)}
	r := NewRemote("127.0.0.1:1", conn, e)
	r.Send("ch", e.told(0))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	assert.Equal(t, []bool{false}, <-e.settled)
	cancel()
	require.NoError(t, <-done)
}

// TestAPartOfAMessageIsHeard, also where nothing else of it ever comes.
func TestAPartOfAMessageIsHeard(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	heard := make(chan struct{}, 1)
	conn, err := DialHearing(listener.Addr().String(), nil, nil, nil, 1<<20, func(int) { heard <- struct{}{} })
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	conn.Connect()
	theirs, err := listener.Accept()
	require.NoError(t, err)
	defer func() { require.NoError(t, theirs.Close()) }()
	_, err = theirs.Write([]byte{0})
	require.NoError(t, err)
	<-heard
}

// TestWhatWaitsAtTheEndIsLostAndSaidSo: a connection ends while others go on, as one that another replaces.
func TestWhatWaitsAtTheEndIsLostAndSaidSo(t *testing.T) {
	conn, err := Dial("127.0.0.1:1", nil, nil, nil, 1<<20)
	require.NoError(t, err)
	e := &events{}
	r := NewRemote("127.0.0.1:1", conn, e)
	r.Send("ch", e.told(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx))
	assert.Equal(t, []bool{false}, e.sent())
}
