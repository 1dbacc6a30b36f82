package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qioi/qioi/ledger/internal/peer/gateway"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

func submit(payload string) *gatewaypb.SubmitRequest {
	return &gatewaypb.SubmitRequest{
		TransactionId: payload, ChannelId: peertest.Channel,
		PreparedTransaction: &commonpb.Envelope{Payload: []byte(payload), Signature: []byte("signature")},
	}
}

func (f *fixture) submit(payload string) error {
	_, err := f.client.Submit(context.Background(), submit(payload))
	return err
}

func TestSubmittedIsWhatAnOrdererSaysIsOrdered(t *testing.T) {
	f := start(t, nil)
	require.NoError(t, f.submit("a"))
	require.NoError(t, f.submit("b"))
	require.Equal(t, 2, f.orderers[0].count(), "one orderer has it, over one stream")
	assert.Equal(t, "b", string(f.orderers[0].got[1].Payload))
	assert.Equal(t, "signature", string(f.orderers[0].got[1].Signature))
	assert.Zero(t, f.orderers[1].count()+f.orderers[2].count())
}

func TestTheNextOrdererIsTriedAndStaysPreferred(t *testing.T) {
	f := start(t, nil)
	f.orderers[0].server.Stop()
	f.orderers[1].saying(commonpb.Status_SERVICE_UNAVAILABLE, "no Raft leader")
	require.NoError(t, f.submit("a"))
	require.NoError(t, f.submit("b"))
	assert.Equal(t, 1, f.orderers[1].count())
	assert.Equal(t, 2, f.orderers[2].count())
}

func TestTheLeaderIsPreferredWhereItIsNamed(t *testing.T) {
	f := start(t, nil)
	f.orderers[0].saying(commonpb.Status_SUCCESS, f.orderers[2].address)
	require.NoError(t, f.submit("a"))
	require.NoError(t, f.submit("b"))
	assert.Equal(t, 1, f.orderers[0].count())
	assert.Equal(t, 1, f.orderers[2].count())
}

func TestRefusalsAreTold(t *testing.T) {
	f := start(t, nil)
	for _, o := range f.orderers {
		o.saying(commonpb.Status_SERVICE_UNAVAILABLE, "no Raft leader")
	}
	const reason = "OrdererMSP: received unsuccessful response from orderer: status=SERVICE_UNAVAILABLE, info=no Raft leader"
	assert.Equal(t, "Unavailable: no orderers could successfully process transaction\norderer0 "+reason+"\norderer1 "+reason+"\norderer2 "+reason, f.described(f.submit("a")))
	for _, o := range f.orderers {
		o.server.Stop()
	}
	err := f.submit("b")
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "no orderers could successfully process transaction")
}

func TestBackPressureAndRefusalsAreNotTakenToTheNext(t *testing.T) {
	for want, c := range map[string]struct {
		code commonpb.Status
		info string
	}{
		"ResourceExhausted: ": {commonpb.Status_SERVICE_UNAVAILABLE, "RESOURCE_EXHAUSTED: too many transactions wait to be ordered"},
		"Aborted: ":           {commonpb.Status_FORBIDDEN, "not a writer"},
	} {
		f := start(t, nil)
		f.orderers[0].saying(c.code, c.info)
		err := f.submit("a")
		said := fmt.Sprintf("received unsuccessful response from orderer: status=%s, info=%s", c.code, c.info)
		assert.Equal(t, want+said+"\norderer0 OrdererMSP: "+said, f.described(err))
		assert.Zero(t, f.orderers[1].count()+f.orderers[2].count())
	}
}

func TestSubmitRequestsAreChecked(t *testing.T) {
	f := start(t, nil)
	for want, change := range map[string]func(*gatewaypb.SubmitRequest){
		"InvalidArgument: a prepared transaction is required":  func(r *gatewaypb.SubmitRequest) { r.PreparedTransaction = nil },
		"InvalidArgument: prepared transaction must be signed": func(r *gatewaypb.SubmitRequest) { r.PreparedTransaction.Signature = nil },
		"FailedPrecondition: channel 'other' not found":        func(r *gatewaypb.SubmitRequest) { r.ChannelId = "other" },
		"Aborted: received unsuccessful response from orderer: status=BAD_REQUEST": func(r *gatewaypb.SubmitRequest) {
			r.PreparedTransaction.Payload = bytes.Repeat([]byte{1}, f.Bundle.Orderer.AbsoluteMaxBytes)
		},
		"status=BAD_REQUEST, info=message payload is": func(r *gatewaypb.SubmitRequest) { // what is no field of an envelope
			unknown := protowire.AppendTag(nil, 9, protowire.BytesType)
			r.PreparedTransaction.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, make([]byte, f.Bundle.Orderer.AbsoluteMaxBytes)))
		},
	} {
		request := submit("a")
		change(request)
		_, err := f.client.Submit(context.Background(), request)
		assert.Contains(t, f.described(err), want)
	}
	assert.Zero(t, f.orderers[0].count())
}

// The orderer holds its answers back: what was sent meanwhile is answered in order.
func TestSubmissionsArePipelined(t *testing.T) {
	f := start(t, nil)
	const n = 50
	all := make(chan struct{})
	o := f.orderers[0]
	o.serve = func(st ordererpb.AtomicBroadcast_BroadcastServer) error {
		var held []*commonpb.Envelope
		for range n {
			env, err := st.Recv()
			if err != nil {
				return err
			}
			held = append(held, env)
		}
		close(all)
		for _, env := range held {
			response := &ordererpb.BroadcastResponse{Status: commonpb.Status_SUCCESS}
			if i, _ := strconv.Atoi(string(env.Payload)); i%2 == 1 {
				response.Status, response.Info = commonpb.Status_BAD_REQUEST, "odd "+string(env.Payload)
			}
			if err := st.Send(response); err != nil {
				return err
			}
		}
		<-st.Context().Done()
		return nil
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := f.submit(strconv.Itoa(i))
			if i%2 == 0 {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, "info=odd "+strconv.Itoa(i), "everybody gets the answer to his own")
			}
		})
	}
	<-all
	wg.Wait()
}

// A stream that breaks has not said SUCCESS: the envelope goes to the next orderer.
func TestWhatABrokenStreamLeftOpenIsTakenToTheNext(t *testing.T) {
	f := start(t, nil)
	o := f.orderers[0]
	o.serve = func(st ordererpb.AtomicBroadcast_BroadcastServer) error {
		for range 3 {
			if _, err := st.Recv(); err != nil {
				return err
			}
		}
		return status.Error(codes.Internal, "broken")
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { assert.NoError(t, f.submit(strconv.Itoa(i))) })
	}
	wg.Wait()
	assert.Equal(t, 3, f.orderers[1].count())
}

func TestASilentOrdererIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for limit := time.Second; ; limit *= 2 { // the other orderer needs less, on a host however slow
		f := start(t, func(c *gateway.Config) { c.BroadcastTimeout = limit })
		f.orderers[0].serve = func(st ordererpb.AtomicBroadcast_BroadcastServer) error {
			<-st.Context().Done()
			return nil
		}
		err := f.submit("a")
		if err == nil || limit > time.Minute {
			require.NoError(t, err)
			assert.Equal(t, 1, f.orderers[1].count())
			return
		}
	}
}

func TestAClientThatGivesUpDoesNotDisturbTheOthers(t *testing.T) {
	f := start(t, nil)
	got, release := make(chan struct{}), make(chan struct{})
	f.orderers[0].serve = func(st ordererpb.AtomicBroadcast_BroadcastServer) error {
		for i := 0; ; i++ {
			env, err := st.Recv()
			if err != nil {
				return nil
			}
			f.orderers[0].note(env)
			if i == 0 {
				close(got)
				<-release
			}
			if err := st.Send(&ordererpb.BroadcastResponse{Status: commonpb.Status_SUCCESS, Info: string(env.Payload)}); err != nil {
				return nil
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() {
		_, err := f.client.Submit(ctx, submit("a"))
		gone <- err
	}()
	<-got
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-gone))
	close(release)
	require.NoError(t, f.submit("b"), "its answer comes after that of the one who has left")
	assert.Equal(t, 2, f.orderers[0].count())
}
