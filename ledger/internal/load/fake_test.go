package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// fakeGateway is a peer that checks every signature and commits at once.
type fakeGateway struct {
	gatewaypb.UnimplementedGatewayServer
	manager *identity.Manager
	// verdict decides a transaction by its arguments: an error of Endorse, or a code.
	verdict func(args []string) (peerpb.TxValidationCode, error)
	delay   func() time.Duration // before a commit is told
	// lose are the errors by which a call ends after it has done its work.
	lose map[stage]error

	mu      sync.Mutex
	known   map[string]peerpb.TxValidationCode
	calls   []string
	refused []string
	// evaluated are the calls that were not ordered.
	evaluated []string
	// connections were accepted so far.
	connections atomic.Int64
}

// counting counts what it accepts.
type counting struct {
	net.Listener
	count *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.count.Add(1)
	}
	return conn, err
}

func (g *fakeGateway) refuse(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = append(g.refused, err.Error())
	return status.Error(codes.InvalidArgument, err.Error())
}

func (g *fakeGateway) verify(creator, message, signature []byte) error {
	id, err := g.manager.Deserialize(creator)
	if err != nil {
		return err
	}
	return id.Verify(message, signature)
}

func (g *fakeGateway) Endorse(_ context.Context, r *gatewaypb.EndorseRequest) (*gatewaypb.EndorseResponse, error) {
	args, err := g.openProposal(r)
	if err != nil {
		return nil, g.refuse(err)
	}
	code := peerpb.TxValidationCode_VALID
	if g.verdict != nil {
		if code, err = g.verdict(args); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[r.GetTransactionId()] = code
	g.calls = append(g.calls, strings.Join(args, " "))
	return &gatewaypb.EndorseResponse{PreparedTransaction: &commonpb.Envelope{Payload: []byte(r.GetTransactionId())}}, nil
}

func (g *fakeGateway) Evaluate(_ context.Context, r *gatewaypb.EvaluateRequest) (*gatewaypb.EvaluateResponse, error) {
	args, err := g.openProposal(&gatewaypb.EndorseRequest{
		TransactionId: r.GetTransactionId(), ChannelId: r.GetChannelId(), ProposedTransaction: r.GetProposedTransaction(),
	})
	if err != nil {
		return nil, g.refuse(err)
	}
	if g.verdict != nil {
		if _, err := g.verdict(args); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evaluated = append(g.evaluated, strings.Join(args, " "))
	return &gatewaypb.EvaluateResponse{Result: &peerpb.Response{Status: 200}}, nil
}

// openProposal reads a proposal as a peer would.
func (g *fakeGateway) openProposal(r *gatewaypb.EndorseRequest) ([]string, error) {
	signed := r.GetProposedTransaction()
	var proposal peerpb.Proposal
	var header commonpb.Header
	var channel commonpb.ChannelHeader
	var signature commonpb.SignatureHeader
	var payload peerpb.ChaincodeProposalPayload
	var spec peerpb.ChaincodeInvocationSpec
	var extension peerpb.ChaincodeHeaderExtension
	for _, step := range []struct {
		from func() []byte
		to   proto.Message
	}{
		{signed.GetProposalBytes, &proposal},
		{proposal.GetHeader, &header},
		{header.GetChannelHeader, &channel},
		{header.GetSignatureHeader, &signature},
		{proposal.GetPayload, &payload},
		{payload.GetInput, &spec},
		{channel.GetExtension, &extension},
	} {
		if err := proto.Unmarshal(step.from(), step.to); err != nil {
			return nil, err
		}
	}
	if err := g.verify(signature.GetCreator(), signed.GetProposalBytes(), signed.GetSignature()); err != nil {
		return nil, err
	}
	id := protoutil.TxID(signature.GetNonce(), signature.GetCreator())
	if id != r.GetTransactionId() || id != channel.GetTxId() {
		return nil, fmt.Errorf("transaction id %s is not %s", channel.GetTxId(), id)
	}
	if channel.GetType() != int32(commonpb.HeaderType_ENDORSER_TRANSACTION) || channel.GetChannelId() != "mychannel" ||
		r.GetChannelId() != "mychannel" || time.Since(channel.GetTimestamp().AsTime()).Abs() > time.Minute {
		return nil, fmt.Errorf("channel header %v", &channel)
	}
	if spec.GetChaincodeSpec().GetChaincodeId().GetName() != extension.GetChaincodeId().GetName() || extension.GetChaincodeId().GetName() == "" {
		return nil, fmt.Errorf("chaincode %v", &spec)
	}
	var args []string
	for _, a := range spec.GetChaincodeSpec().GetInput().GetArgs() {
		args = append(args, string(a))
	}
	return args, nil
}

func (g *fakeGateway) Submit(_ context.Context, r *gatewaypb.SubmitRequest) (*gatewaypb.SubmitResponse, error) {
	envelope := r.GetPreparedTransaction()
	// Any client of the network may have sent it: the fake's manager knows one.
	if string(envelope.GetPayload()) != r.GetTransactionId() || len(envelope.GetSignature()) == 0 {
		return nil, g.refuse(fmt.Errorf("envelope of %s", r.GetTransactionId()))
	}
	return &gatewaypb.SubmitResponse{}, g.lose[stageSubmit]
}

func (g *fakeGateway) CommitStatus(_ context.Context, r *gatewaypb.SignedCommitStatusRequest) (*gatewaypb.CommitStatusResponse, error) {
	var request gatewaypb.CommitStatusRequest
	if err := proto.Unmarshal(r.GetRequest(), &request); err != nil {
		return nil, g.refuse(err)
	}
	if err := g.verify(request.GetIdentity(), r.GetRequest(), r.GetSignature()); err != nil {
		return nil, g.refuse(err)
	}
	if g.delay != nil {
		time.Sleep(g.delay())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	code, ok := g.known[request.GetTransactionId()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such transaction")
	}
	return &gatewaypb.CommitStatusResponse{Result: code, BlockNumber: 7}, g.lose[stageCommit]
}

func (g *fakeGateway) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{}, g.calls...)
}

// startNetwork serves the gateways as peer0, peer1, … over TLS and writes the
// network.json that leads to them.
func startNetwork(t *testing.T, gateways ...*fakeGateway) string {
	t.Helper()
	dir := t.TempDir()
	authority, err := ca.New("ca", "org1.example.com")
	require.NoError(t, err)
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	clientCert, clientKey, err := authority.Issue(ca.Request{CommonName: "User1", Unit: "client"})
	require.NoError(t, err)
	write("user.pem", clientCert)
	write("user.key", clientKey)
	write("tlsca.pem", authority.CertPEM())
	serverCert, serverKey, err := authority.Issue(ca.Request{CommonName: "peer", Unit: "peer", Hosts: []string{"127.0.0.1"}})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	require.NoError(t, err)
	manager, err := identity.NewManager(identity.OrgConfig{
		MSPID: "Org1MSP", RootCerts: [][]byte{authority.CertPEM()}, OUs: identity.DefaultOUs(),
	})
	require.NoError(t, err)

	nodes := []map[string]any{{"name": "orderer1", "role": "orderer", "msp_id": "OrdererMSP", "address": "127.0.0.1:1"}}
	for i, g := range gateways {
		g.manager, g.known = manager, map[string]peerpb.TxValidationCode{}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
		listener = counting{listener, &g.connections}
		gatewaypb.RegisterGatewayServer(server, g)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		nodes = append(nodes, map[string]any{
			"name": fmt.Sprintf("peer%d", i), "role": "peer", "msp_id": "Org1MSP", "address": listener.Addr().String(),
		})
	}
	text, err := json.Marshal(map[string]any{
		"channels": []string{"mychannel"}, "tls": true, "nodes": nodes,
		"clients": []map[string]string{{"msp_id": "Org1MSP", "name": "User1", "cert": "user.pem", "key": "user.key"}},
		"tls_ca":  map[string]string{"Org1MSP": "tlsca.pem"},
	})
	require.NoError(t, err)
	write("network.json", text)
	return filepath.Join(dir, "network.json")
}

// execute runs the command and decodes its JSON result.
func execute(ctx context.Context, t *testing.T, args ...string) (*Result, error) {
	t.Helper()
	var stdout bytes.Buffer
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(args, "--json", "-", "--progress", "0"))
	cmd.SetOut(&stdout)
	runErr := cmd.ExecuteContext(ctx)
	if stdout.Len() == 0 {
		return nil, runErr
	}
	result := &Result{}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), result), stdout.String())
	return result, runErr
}

// addOperations gives the peers of a network.json an operations endpoint.
func addOperations(t *testing.T, file, address string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var described map[string]any
	require.NoError(t, json.Unmarshal(text, &described))
	for _, node := range described["nodes"].([]any) {
		if node := node.(map[string]any); node["role"] == "peer" {
			node["operations"] = address
		}
	}
	text, err = json.Marshal(described)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
}
