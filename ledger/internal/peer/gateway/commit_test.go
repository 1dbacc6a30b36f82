package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

func (f *fixture) signed(client *identity.SigningIdentity, m proto.Message) (request, signature []byte) {
	f.t.Helper()
	request, err := proto.Marshal(m)
	require.NoError(f.t, err)
	signature, err = client.Sign(request)
	require.NoError(f.t, err)
	return request, signature
}

func (f *fixture) ask(id string) *gatewaypb.SignedCommitStatusRequest {
	client := f.Signer("Org1MSP", "client")
	request, signature := f.signed(client, &gatewaypb.CommitStatusRequest{TransactionId: id, ChannelId: peertest.Channel, Identity: client.Serialized()})
	return &gatewaypb.SignedCommitStatusRequest{Request: request, Signature: signature}
}

func TestCommitStatusIsToldBeforeAndAfter(t *testing.T) {
	f := start(t, nil)
	one, first := f.Make(peertest.Tx{})
	two, second := f.Make(peertest.Tx{})
	type told struct {
		status *gatewaypb.CommitStatusResponse
		err    error
	}
	early, question := make(chan told, 1), f.ask(second)
	go func() {
		got, err := f.client.CommitStatus(context.Background(), question)
		early <- told{got, err}
	}()
	require.Eventually(t, func() bool { return f.ledger.waiting.Load() == 1 }, time.Minute, time.Millisecond)
	f.ledger.add(f.World, nil, one)
	late, err := f.client.CommitStatus(context.Background(), f.ask(first))
	require.NoError(t, err)
	assert.Equal(t, peerpb.TxValidationCode_VALID, late.Result)
	assert.Zero(t, late.BlockNumber)
	f.ledger.add(f.World, map[string]peerpb.TxValidationCode{second: peerpb.TxValidationCode_MVCC_READ_CONFLICT}, two)
	got := <-early
	require.NoError(t, got.err)
	assert.Equal(t, peerpb.TxValidationCode_MVCC_READ_CONFLICT, got.status.Result)
	assert.Equal(t, uint64(1), got.status.BlockNumber)

	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	_, err = f.client.CommitStatus(ctx, f.ask("unknown"))
	assert.Equal(t, codes.Canceled, status.Code(err))
}

func TestOnlyReadersOfTheChannelAreTold(t *testing.T) {
	f := start(t, nil)
	request := f.ask("tx")
	request.Signature[12] ^= 1
	_, err := f.client.CommitStatus(context.Background(), request)
	assert.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)

	client := f.Signer("Org1MSP", "client")
	raw, signature := f.signed(client, &gatewaypb.CommitStatusRequest{ChannelId: "other", Identity: client.Serialized()})
	_, err = f.client.CommitStatus(context.Background(), &gatewaypb.SignedCommitStatusRequest{Request: raw, Signature: signature})
	assert.Equal(t, "PermissionDenied: channel 'other' not found", f.described(err))

	stranger := peertest.New(t, peertest.Options{}).Signer("Org1MSP", "client") // of another network with equal names
	raw, signature = f.signed(stranger, &gatewaypb.CommitStatusRequest{ChannelId: peertest.Channel, Identity: stranger.Serialized()})
	_, err = f.client.CommitStatus(context.Background(), &gatewaypb.SignedCommitStatusRequest{Request: raw, Signature: signature})
	assert.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)

	// An orderers' organisation reads the channel, and not what the application does there.
	for _, m := range []proto.Message{
		&gatewaypb.CommitStatusRequest{ChannelId: peertest.Channel, Identity: f.Signer("OrdererMSP", "client").Serialized()},
		&gatewaypb.ChaincodeEventsRequest{ChannelId: peertest.Channel, Identity: f.Signer("OrdererMSP", "client").Serialized()},
	} {
		raw, signature = f.signed(f.Signer("OrdererMSP", "client"), m)
		require.ErrorContains(t, f.told(m, raw, signature), "PermissionDenied desc = access denied: channel [mychannel]: "+
			"client of OrdererMSP does not satisfy /Channel/Application/Readers")
	}

	_, err = f.client.CommitStatus(context.Background(), &gatewaypb.SignedCommitStatusRequest{})
	assert.Equal(t, "InvalidArgument: a commit status request is required", f.described(err))
	_, err = f.client.CommitStatus(context.Background(), &gatewaypb.SignedCommitStatusRequest{Request: []byte{0xff}})
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
}

// told is how a signed request of either kind fails.
func (f *fixture) told(kind proto.Message, request, signature []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // what is admitted waits for an event
	defer cancel()
	if _, ok := kind.(*gatewaypb.CommitStatusRequest); ok {
		_, err := f.client.CommitStatus(ctx, &gatewaypb.SignedCommitStatusRequest{Request: request, Signature: signature})
		return err
	}
	stream, err := f.client.ChaincodeEvents(ctx, &gatewaypb.SignedChaincodeEventsRequest{Request: request, Signature: signature})
	require.NoError(f.t, err)
	_, err = stream.Recv()
	return err
}

// events opens a stream of events of kv.
func (f *fixture) events(request *gatewaypb.ChaincodeEventsRequest) gatewaypb.Gateway_ChaincodeEventsClient {
	f.t.Helper()
	client := f.Signer("Org1MSP", "client")
	request.ChannelId, request.ChaincodeId, request.Identity = peertest.Channel, "kv", client.Serialized()
	raw, signature := f.signed(client, request)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	f.t.Cleanup(cancel)
	stream, err := f.client.ChaincodeEvents(ctx, &gatewaypb.SignedChaincodeEventsRequest{Request: raw, Signature: signature})
	require.NoError(f.t, err)
	return stream
}

func from(block uint64) *ordererpb.SeekPosition {
	return &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Specified{Specified: &ordererpb.SeekSpecified{Number: block}}}
}

func (f *fixture) next(stream gatewaypb.Gateway_ChaincodeEventsClient) (uint64, []string) {
	f.t.Helper()
	got, err := stream.Recv()
	require.NoError(f.t, err)
	var names []string
	for _, e := range got.Events {
		assert.Equal(f.t, "kv", e.ChaincodeId)
		names = append(names, e.EventName+"="+string(e.Payload))
	}
	return got.BlockNumber, names
}

func TestChaincodeEventsComeBlockByBlock(t *testing.T) {
	f := start(t, nil)
	emit := func(chaincode, name string) ([]byte, string) {
		return f.Make(peertest.Tx{Chaincode: chaincode, Event: &peerpb.ChaincodeEvent{EventName: name, Payload: []byte("1")}})
	}
	a, _ := emit("kv", "a")
	b, idB := emit("kv", "b")
	c, _ := emit("kv", "c")
	other, _ := emit("both", "other")
	bad, idBad := emit("kv", "bad")
	silent, idSilent := f.Make(peertest.Tx{})
	f.ledger.add(f.World, nil, silent)
	f.ledger.add(f.World, map[string]peerpb.TxValidationCode{idBad: peerpb.TxValidationCode_MVCC_READ_CONFLICT}, a, bad, other, b, c)

	all := f.events(&gatewaypb.ChaincodeEventsRequest{StartPosition: from(0)})
	block, names := f.next(all)
	assert.Equal(t, uint64(1), block)
	assert.Equal(t, []string{"a=1", "b=1", "c=1"}, names)

	after := f.events(&gatewaypb.ChaincodeEventsRequest{AfterTransactionId: idB})
	_, names = f.next(after)
	assert.Equal(t, []string{"c=1"}, names)
	for id, want := range map[string][]string{idBad: {"b=1", "c=1"}, idSilent: {"a=1", "b=1", "c=1"}} {
		_, names = f.next(f.events(&gatewaypb.ChaincodeEventsRequest{AfterTransactionId: id}))
		assert.Equal(t, want, names, "it is invalid, or has no event")
	}

	d, _ := emit("kv", "d")
	f.ledger.add(f.World, nil, silent)
	f.ledger.add(f.World, nil, d)
	for _, stream := range []gatewaypb.Gateway_ChaincodeEventsClient{all, after, f.events(&gatewaypb.ChaincodeEventsRequest{StartPosition: from(2)})} {
		block, names = f.next(stream)
		assert.Equal(t, uint64(3), block)
		assert.Equal(t, []string{"d=1"}, names)
	}

	oldest := f.events(&gatewaypb.ChaincodeEventsRequest{StartPosition: &ordererpb.SeekPosition{Type: &ordererpb.SeekPosition_Oldest{}}})
	_, err := oldest.Recv()
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
}

// TestEventsAfterATransactionDoNotBeginAtACopyOfItsID: anybody who may write can put one before it, and the client would get
// again what it has had.
func TestEventsAfterATransactionDoNotBeginAtACopyOfItsID(t *testing.T) {
	f := start(t, nil)
	emit := func(name string) ([]byte, string) {
		return f.Make(peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: name, Payload: []byte("1")}})
	}
	had, _ := emit("had")
	last, id := emit("last")
	next, _ := emit("next")
	f.ledger.add(f.World, nil, last, had, last, next)
	f.ledger.mu.Lock()
	flags := f.ledger.blocks[len(f.ledger.blocks)-1].Metadata.Metadata[commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER]
	flags[0] = byte(peerpb.TxValidationCode_BAD_PROPOSAL_TXID)
	f.ledger.mu.Unlock()
	_, names := f.next(f.events(&gatewaypb.ChaincodeEventsRequest{AfterTransactionId: id}))
	assert.Equal(t, []string{"next=1"}, names)
}

// TestEventsAfterATransactionThatCannotBeLookedUp do not begin elsewhere: a client that goes on where it was would miss some.
func TestEventsAfterATransactionThatCannotBeLookedUp(t *testing.T) {
	f := start(t, nil)
	raw, id := f.Make(peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: "seen"}})
	f.ledger.add(f.World, nil, raw)
	f.ledger.mu.Lock()
	f.ledger.damage = errors.New("the ids are damaged")
	f.ledger.mu.Unlock()
	_, err := f.events(&gatewaypb.ChaincodeEventsRequest{AfterTransactionId: id, StartPosition: from(0)}).Recv()
	assert.Equal(t, codes.Aborted, status.Code(err))
	assert.ErrorContains(t, err, "the ids are damaged")
}

func TestEventsOfTheNextCommitBeginWithIt(t *testing.T) {
	f := start(t, nil)
	old, _ := f.Make(peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: "old"}})
	f.ledger.add(f.World, nil, old)
	stream := f.events(&gatewaypb.ChaincodeEventsRequest{})
	// The stream's position is taken on the server: only a block that comes after counts,
	// so blocks are added until one is seen.
	seen := make(chan string, 1)
	go func() {
		defer close(seen)
		got, err := stream.Recv()
		if assert.NoError(t, err) {
			seen <- got.Events[0].EventName
		}
	}()
	for {
		fresh, _ := f.Make(peertest.Tx{Event: &peerpb.ChaincodeEvent{EventName: "new"}})
		f.ledger.add(f.World, nil, fresh)
		select {
		case name := <-seen:
			assert.Equal(t, "new", name)
			return
		default:
		}
	}
}
