package test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// user is a client of the network.
type user struct {
	g      *grid
	signer *identity.SigningIdentity
	ctx    context.Context
}

func (g *grid) user() *user {
	g.t.Helper()
	c := g.file.Clients[0]
	signer, err := identity.LoadSigner(c.MSPID, g.path(c.Cert), g.path(c.Key))
	require.NoError(g.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	g.t.Cleanup(cancel)
	return &user{g, signer, ctx}
}

func (u *user) dial(node string) *grpc.ClientConn {
	u.g.t.Helper()
	n := u.g.node(node)
	pem, err := os.ReadFile(u.g.path(u.g.file.TLSCA[n.MSPID]))
	require.NoError(u.g.t, err)
	roots := x509.NewCertPool()
	require.True(u.g.t, roots.AppendCertsFromPEM(pem))
	conn, err := grpc.NewClient(n.Address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})))
	require.NoError(u.g.t, err)
	u.g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// proposal is a signed call of the kv chaincode, and its transaction id.
func (u *user) proposal(args ...string) (*peerpb.SignedProposal, string, error) {
	nonce, err := protoutil.NewNonce()
	if err != nil {
		return nil, "", err
	}
	marshal := func(m proto.Message) []byte {
		raw, wrong := proto.Marshal(m)
		err = errors.Join(err, wrong)
		return raw
	}
	id := protoutil.TxID(nonce, u.signer.Serialized())
	cc := &peerpb.ChaincodeID{Name: "kv"}
	input := &peerpb.ChaincodeInput{}
	for _, a := range args {
		input.Args = append(input.Args, []byte(a))
	}
	proposal := marshal(&peerpb.Proposal{
		Header: marshal(&commonpb.Header{
			ChannelHeader: marshal(&commonpb.ChannelHeader{
				Type: int32(commonpb.HeaderType_ENDORSER_TRANSACTION), ChannelId: u.g.file.Channels[0], TxId: id, Timestamp: timestamppb.Now(),
				Extension: marshal(&peerpb.ChaincodeHeaderExtension{ChaincodeId: cc}),
			}),
			SignatureHeader: marshal(&commonpb.SignatureHeader{Creator: u.signer.Serialized(), Nonce: nonce}),
		}),
		Payload: marshal(&peerpb.ChaincodeProposalPayload{
			Input: marshal(&peerpb.ChaincodeInvocationSpec{ChaincodeSpec: &peerpb.ChaincodeSpec{ChaincodeId: cc, Input: input}}),
		}),
	})
	if err != nil {
		return nil, "", err
	}
	sig, err := u.signer.Sign(proposal)
	return &peerpb.SignedProposal{ProposalBytes: proposal, Signature: sig}, id, err
}

// endorsed is a signed transaction of the kv chaincode, ready to be ordered.
func (u *user) endorsed(gateway gatewaypb.GatewayClient, args ...string) (*commonpb.Envelope, string) {
	t := u.g.t
	t.Helper()
	proposal, id, err := u.proposal(args...)
	require.NoError(t, err)
	answer, err := gateway.Endorse(u.ctx, &gatewaypb.EndorseRequest{TransactionId: id, ChannelId: u.g.file.Channels[0], ProposedTransaction: proposal})
	require.NoError(t, err)
	env := answer.PreparedTransaction
	env.Signature, err = u.signer.Sign(env.Payload)
	require.NoError(t, err)
	return env, id
}

// broadcast sends envelopes ahead of their answers and gives those that are to be sent again, since the leader changed:
// of these it is not known whether they are ordered.
func (u *user) broadcast(stream ordererpb.AtomicBroadcast_BroadcastClient, envelopes []*commonpb.Envelope) (left []*commonpb.Envelope) {
	t := u.g.t
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() {
		for _, env := range envelopes {
			assert.NoError(t, stream.Send(env))
		}
	})
	for _, env := range envelopes {
		answer, err := stream.Recv()
		if !assert.NoError(t, err) {
			return nil
		}
		if answer.Status == commonpb.Status_SERVICE_UNAVAILABLE {
			left = append(left, env)
			continue
		}
		assert.Equal(t, commonpb.Status_SUCCESS, answer.Status, answer.Info)
	}
	return left
}

// TestTheSameEnvelopeToTwoOrderers sends each envelope to two orderers at the same moment,
// while others are under way: exactly one copy is valid, and it is the same one on every peer.
func TestTheSameEnvelopeToTwoOrderers(t *testing.T) {
	g := newGrid(t, "--peers-per-org", "1", "--chaincode", kv)
	u := g.user()
	gateway := gatewaypb.NewGatewayClient(u.dial("peer0-org1"))
	g.awaitLog("peer0-org1", "is connected") // the chaincode
	g.awaitLog("orderer1", "Raft leader changed")
	g.awaitLog("orderer2", "Raft leader changed")
	const n = 100
	var envelopes []*commonpb.Envelope
	ids := map[string]bool{}
	for i := range n {
		env, id := u.endorsed(gateway, "put", fmt.Sprint("key", i), "value")
		envelopes = append(envelopes, env)
		ids[id] = true
	}
	var senders sync.WaitGroup
	var again atomic.Int64
	for _, orderer := range []string{"orderer1", "orderer2"} {
		stream, err := ordererpb.NewAtomicBroadcastClient(u.dial(orderer)).Broadcast(u.ctx)
		require.NoError(t, err)
		senders.Go(func() {
			left := u.broadcast(stream, envelopes)
			for ; len(left) > 0 && u.ctx.Err() == nil; left = u.broadcast(stream, left) {
				again.Add(int64(len(left)))
				time.Sleep(20 * time.Millisecond) // they were refused at once: until there is a leader
			}
			assert.Empty(t, left)
		})
	}
	senders.Wait()
	g.eventually("all copies are judged", func() bool {
		for _, peer := range g.named("peer") {
			if g.counter(peer, "ledger_transaction_count", "ENDORSER_TRANSACTION") < 2*n {
				return false
			}
		}
		return true
	})
	report := g.agree(nil)
	assert.GreaterOrEqual(t, report.Codes["DUPLICATE_TXID"], uint64(n))
	assert.LessOrEqual(t, report.Codes["DUPLICATE_TXID"], n+uint64(again.Load()))
	valid := 0
	for _, line := range report.Verdicts {
		if f := strings.Fields(line); f[2] == "VALID" && ids[f[3]] {
			valid++
		}
	}
	assert.Equal(t, n, valid, "each once: agree has checked that none is valid twice")
}
