package gateway_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/gateway"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// transaction is what a client finds in a prepared envelope.
type transaction struct {
	header    *commonpb.Header
	payload   []byte // ChaincodeProposalPayload
	response  *peerpb.ProposalResponsePayload
	endorsers []string
}

func (f *fixture) open(env *commonpb.Envelope) transaction {
	var payload commonpb.Payload
	var tx peerpb.Transaction
	var action peerpb.ChaincodeActionPayload
	out := transaction{response: &peerpb.ProposalResponsePayload{}}
	require.NoError(f.t, proto.Unmarshal(env.Payload, &payload))
	require.NoError(f.t, proto.Unmarshal(payload.Data, &tx))
	require.Len(f.t, tx.Actions, 1)
	assert.Equal(f.t, payload.Header.SignatureHeader, tx.Actions[0].Header)
	require.NoError(f.t, proto.Unmarshal(tx.Actions[0].Payload, &action))
	require.NoError(f.t, proto.Unmarshal(action.Action.ProposalResponsePayload, out.response))
	out.header, out.payload = payload.Header, action.ChaincodeProposalPayload
	for _, e := range action.Action.Endorsements {
		id, err := f.Bundle.MSP.Deserialize(e.Endorser)
		require.NoError(f.t, err)
		message := append(append([]byte{}, action.Action.ProposalResponsePayload...), e.Endorser...)
		require.NoError(f.t, id.Verify(message, e.Signature))
		out.endorsers = append(out.endorsers, id.MSPID)
	}
	return out
}

func TestOneEndorsementIsEnoughWhereThePolicySaysSo(t *testing.T) {
	f := start(t, nil)
	f.set("peer0-org2", answers(500, "nobody should ask here"))
	prepared, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{Args: []string{"put"}, Transient: map[string][]byte{"secret": []byte("word")}}))
	require.NoError(t, err)
	assert.Empty(t, prepared.PreparedTransaction.Signature)
	tx := f.open(prepared.PreparedTransaction)
	assert.Equal(t, []string{"Org1MSP"}, tx.endorsers)
	assert.Equal(t, validate.ProposalHash(tx.header.ChannelHeader, tx.header.SignatureHeader, tx.payload), tx.response.ProposalHash)
	assert.NotContains(t, string(prepared.PreparedTransaction.Payload), "word", "transient data stays out of the ledger")
}

func TestOtherOrganisationsAreAskedWhereThePolicyNeedsThem(t *testing.T) {
	f := start(t, nil)
	prepared, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"Org1MSP", "Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)

	f.servers["peer0-org2"].Stop() // its other peer is asked
	prepared, err = f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"Org1MSP", "Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)

	f.servers["peer1-org2"].Stop()
	_, err = f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	assert.Contains(t, f.described(err), "Aborted: failed to collect enough transaction endorsements, see attached details for more info\npeer0-org2 Org2MSP: ")
	assert.Contains(t, f.described(err), "\npeer1-org2 Org2MSP: ")
	assert.Contains(t, f.described(err), "Unavailable")
}

// TestOrganisationsThatNoLayoutHasAreAsked: a majority of 20 organisations can be had in more ways than there are
// layouts.
func TestOrganisationsThatNoLayoutHasAreAsked(t *testing.T) {
	f := start(t, nil)
	f.Bundle.Chaincodes["both"].Layouts = func() []policy.Layout { return nil }
	prepared, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"Org1MSP", "Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)

	f.servers["peer0-org2"].Stop()
	f.servers["peer1-org2"].Stop()
	_, err = f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	assert.Contains(t, f.described(err), "failed to collect enough transaction endorsements")
	assert.NotContains(t, f.described(err), "peer1-org1", "an organisation that has endorsed is not asked again")
}

func TestTheClientMayNameTheOrganisations(t *testing.T) {
	f := start(t, nil)
	request := f.request(peertest.Proposal{})
	request.EndorsingOrganizations = []string{"Org2MSP"}
	prepared, err := f.client.Endorse(context.Background(), request)
	require.NoError(t, err)
	assert.Equal(t, []string{"Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)

	request.EndorsingOrganizations = []string{"Org2MSP", "Org1MSP", "Org2MSP"}
	prepared, err = f.client.Endorse(context.Background(), request)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"Org1MSP", "Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)

	request.EndorsingOrganizations = []string{"Org3MSP", "OrdererMSP", "Org1MSP"}
	_, err = f.client.Endorse(context.Background(), request)
	assert.Equal(t, "Unavailable: failed to find any endorsing peers for org(s): OrdererMSP, Org3MSP", f.described(err))
}

func TestResultsMustBeTheSame(t *testing.T) {
	f := start(t, nil)
	f.set("peer0-org2", writes("k", "something else"))
	_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	assert.Equal(t, "Aborted: failed to collect enough transaction endorsements, see attached details for more info\n"+
		"peer0-org2 Org2MSP: ProposalResponsePayloads do not match: the read/write sets differ", f.described(err))
}

func TestAChaincodesRefusalIsPassedOn(t *testing.T) {
	f := start(t, nil)
	f.set("peer0-org1", answers(500, "account 7 does not exist"))
	_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
	assert.Equal(t, "Aborted: failed to endorse transaction, see attached details for more info\n"+
		"peer0-org1 Org1MSP: chaincode response 500, account 7 does not exist", f.described(err))
	_, err = f.client.Evaluate(context.Background(), evaluate(f.request(peertest.Proposal{})))
	assert.Equal(t, "Unknown: evaluate call to endorser returned error: chaincode response 500, account 7 does not exist\n"+
		"peer0-org1 Org1MSP: chaincode response 500, account 7 does not exist", f.described(err))
}

func TestAPeerWhoseChaincodeIsAwayIsReplaced(t *testing.T) {
	f := start(t, nil)
	f.set("peer0-org1", away)
	prepared, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
	require.NoError(t, err)
	assert.Equal(t, []string{"Org1MSP"}, f.open(prepared.PreparedTransaction).endorsers, "by the organisation's other peer")
	got, err := f.client.Evaluate(context.Background(), evaluate(f.request(peertest.Proposal{})))
	require.NoError(t, err)
	assert.Equal(t, "done", string(got.Result.Payload))

	f.set("peer1-org1", away)
	got, err = f.client.Evaluate(context.Background(), evaluate(f.request(peertest.Proposal{})))
	require.NoError(t, err, "a query may leave the organisation")
	assert.Equal(t, "done", string(got.Result.Payload))
	_, err = f.client.Evaluate(context.Background(), evaluate(f.request(peertest.Proposal{Transient: map[string][]byte{"a": nil}})))
	assert.Contains(t, f.described(err), "Aborted: failed to evaluate transaction, see attached details for more info\n", "transient data may not")
}

// TestAnOrganisationWithoutTheChaincodeHasOthersEndorse: whose policy it is decides who, as with Fabric's discovery.
func TestAnOrganisationWithoutTheChaincodeHasOthersEndorse(t *testing.T) {
	f := start(t, nil)
	f.set("peer0-org1", away)
	f.set("peer1-org1", unknown)
	prepared, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
	require.NoError(t, err)
	assert.Equal(t, []string{"Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)

	secret := peertest.Proposal{Transient: map[string][]byte{"a": nil}}
	_, err = f.client.Endorse(context.Background(), f.request(secret))
	assert.Equal(t, "FailedPrecondition: no endorsers found in the gateway's organization; retry specifying endorsing organization(s) to protect transient data\n"+
		"peer0-org1 Org1MSP: error in simulation: the chaincode is not connected\n"+
		"peer1-org1 Org1MSP: error in simulation: no such chaincode at this peer", f.described(err))
	named := f.request(secret)
	named.EndorsingOrganizations = []string{"Org2MSP"}
	_, err = f.client.Endorse(context.Background(), named)
	require.NoError(t, err)

	_, err = f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
	assert.Contains(t, f.described(err), "Aborted: failed to collect enough transaction endorsements", "this one's policy asks for both")

	f.set("peer0-org2", away)
	f.servers["peer1-org2"].Stop()
	_, err = f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
	assert.Contains(t, f.described(err), "Aborted: failed to endorse transaction, see attached details for more info\n")
	assert.Contains(t, f.described(err), "peer1-org2 Org2MSP: ")
}

// TestWhereAPeerHasFailedNoOtherOrganisationIsAsked: its chaincode ran, or may have.
func TestWhereAPeerHasFailedNoOtherOrganisationIsAsked(t *testing.T) {
	f := start(t, nil)
	f.set("peer0-org1", away)
	f.set("peer1-org1", func(context.Context, cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		return nil, nil, cchost.ErrTimeout
	})
	_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
	assert.Equal(t, "Aborted: failed to endorse transaction, see attached details for more info\n"+
		"peer0-org1 Org1MSP: error in simulation: the chaincode is not connected\n"+
		"peer1-org1 Org1MSP: error in simulation: timeout expired while executing transaction", f.described(err))
}

func evaluate(r *gatewaypb.EndorseRequest) *gatewaypb.EvaluateRequest {
	return &gatewaypb.EvaluateRequest{TransactionId: r.TransactionId, ChannelId: r.ChannelId, ProposedTransaction: r.ProposedTransaction}
}

func TestProposalsAreChecked(t *testing.T) {
	f := start(t, nil)
	for name, c := range map[string]struct {
		change func(*gatewaypb.EndorseRequest)
		want   string
	}{
		"none":      {func(r *gatewaypb.EndorseRequest) { r.ProposedTransaction = nil }, "InvalidArgument: the proposed transaction must contain a signed proposal"},
		"junk":      {func(r *gatewaypb.EndorseRequest) { r.ProposedTransaction.ProposalBytes = []byte{0xff} }, "InvalidArgument: malformed message: not a Proposal"},
		"signature": {func(r *gatewaypb.EndorseRequest) { r.ProposedTransaction.Signature[10] ^= 1 }, "Aborted: failed to endorse transaction, see attached details for more info\npeer0-org1 Org1MSP: error validating proposal"},
		"channel": {func(r *gatewaypb.EndorseRequest) {
			r.ProposedTransaction, _ = f.Propose(peertest.Proposal{Change: func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.ChannelId = "other" }})
		}, "FailedPrecondition: no combination of peers can be derived which satisfy the endorsement policy: No metadata was found for chaincode kv in channel other"},
		"chaincode": {func(r *gatewaypb.EndorseRequest) {
			r.ProposedTransaction, _ = f.Propose(peertest.Proposal{Chaincode: "nope"})
		}, "FailedPrecondition: no combination of peers can be derived which satisfy the endorsement policy: No metadata was found for chaincode nope in channel mychannel"},
	} {
		t.Run(name, func(t *testing.T) {
			request := f.request(peertest.Proposal{})
			c.change(request)
			_, err := f.client.Endorse(context.Background(), request)
			assert.Contains(t, f.described(err), c.want)
		})
	}
}

func TestWhatAQueryCannotReach(t *testing.T) {
	f := start(t, nil)
	_, err := f.client.Evaluate(context.Background(), evaluate(f.request(peertest.Proposal{Chaincode: "nope"})))
	assert.Equal(t, "FailedPrecondition: no peers available to evaluate chaincode nope in channel mychannel", f.described(err))
	request := f.request(peertest.Proposal{})
	request.ProposedTransaction, _ = f.Propose(peertest.Proposal{Change: func(h *commonpb.ChannelHeader, _ *commonpb.SignatureHeader) { h.ChannelId = "other" }})
	_, err = f.client.Evaluate(context.Background(), evaluate(request))
	assert.Equal(t, "Unavailable: failed to get config for channel [other]: could not get last config for channel other", f.described(err))
	// Our own peer answers for system chaincodes, and only queries go there.
	request = f.request(peertest.Proposal{Chaincode: "qscc", Args: []string{"GetChainInfo", "other"}})
	_, err = f.client.Evaluate(context.Background(), evaluate(request))
	assert.Contains(t, f.described(err), "Unknown: evaluate call to endorser returned error: chaincode response 500, Invalid chain ID, other")
	_, err = f.client.Endorse(context.Background(), request)
	assert.Contains(t, f.described(err), "FailedPrecondition: no combination of peers can be derived which satisfy the endorsement policy")
}

// A chaincode that another one called has its own policy.
func TestThePolicyOfEveryChaincodeTouchedCounts(t *testing.T) {
	f := start(t, nil)
	calls := func(_ context.Context, _ cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		return &peerpb.Response{Status: 200}, nil, ledger.PutState("both", "k", []byte("v"))
	}
	f.set("peer0-org1", calls)
	f.set("peer0-org2", calls)
	prepared, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "kv"}))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"Org1MSP", "Org2MSP"}, f.open(prepared.PreparedTransaction).endorsers)
}

func TestEndorsementHasALimitOfTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const first = "DeadlineExceeded: endorsement timeout expired while collecting first endorsement"
	var f *fixture
	for limit := time.Second; ; limit *= 2 { // the own peer needs less, on a host however slow
		f = start(t, func(c *gateway.Config) { c.EndorsementTimeout = limit })
		f.set("peer0-org2", stuck)
		_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{Chaincode: "both"}))
		if said := f.described(err); !strings.Contains(said, first) || limit > time.Minute {
			assert.Contains(t, said, "DeadlineExceeded: endorsement timeout expired while collecting endorsements")
			break
		}
	}
	f.set("peer0-org1", stuck)
	_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
	assert.Contains(t, f.described(err), first)
}

// late is a context whose time is over although its timer has not fired yet: gRPC refuses
// calls by the clock, and so may answer before the context says that it ended.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestAnAnswerBeforeTheTimerFiresIsATimeoutToo(t *testing.T) {
	f := start(t, nil)
	ctx := late{context.Background()}
	_, err := f.gateway.Endorse(ctx, f.request(peertest.Proposal{Chaincode: "both"}))
	assert.Contains(t, f.described(err), "DeadlineExceeded: endorsement timeout expired while collecting endorsements")
	request := evaluate(f.request(peertest.Proposal{}))
	request.TargetOrganizations = []string{"Org2MSP"}
	_, err = f.gateway.Evaluate(ctx, request)
	assert.Contains(t, f.described(err), "DeadlineExceeded: evaluate timeout expired")
}

func TestCallsBeyondTheLimitAreRefused(t *testing.T) {
	f := start(t, func(c *gateway.Config) { c.ConcurrencyLimit = 2 })
	entered, release := make(chan struct{}, 2), make(chan struct{})
	f.set("peer0-org1", func(context.Context, cchost.Invocation, cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		entered <- struct{}{}
		<-release
		return &peerpb.Response{Status: 200}, nil, nil
	})
	var wg sync.WaitGroup
	for range 2 {
		request := f.request(peertest.Proposal{})
		wg.Go(func() {
			_, err := f.client.Endorse(context.Background(), request)
			assert.NoError(t, err)
		})
	}
	<-entered
	<-entered
	_, err := f.client.Evaluate(context.Background(), evaluate(f.request(peertest.Proposal{})))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.ErrorContains(t, err, "too many requests for /gateway.Gateway, exceeding concurrency limit (2)")
	close(release)
	wg.Wait()
}
