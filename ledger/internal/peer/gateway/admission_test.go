package gateway_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/gateway"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/gatewaypb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// A proposal is simulated only when there is a place for it, and a place is free when a transaction is
// committed, not before.
func TestProposalsWaitUntilOthersAreCommitted(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := startIn(t, channelconfig.Stream, func(c *gateway.Config) { c.ConcurrencyLimit, c.Registry = 2, registry })
	var simulated atomic.Int64
	f.set("peer0-org1", func(_ context.Context, in cchost.Invocation, ledger cchost.Ledger) (*peerpb.Response, *peerpb.ChaincodeEvent, error) {
		simulated.Add(1)
		return &peerpb.Response{Status: 200}, nil, ledger.PutState(in.Chaincode, "k", []byte("v"))
	})
	inside := func(n float64) func() bool {
		return func() bool { return opstest.Value(t, registry, "qioi_gateway_window_inside") == n }
	}
	// try says whether the third proposal was seen to wait: not where a place of the others was given up for its time.
	try := func() (waited bool) {
		simulated.Store(0)
		one, other := f.submitted(), f.submitted()
		third := make(chan error, 1)
		go func() {
			_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
			third <- err
		}()
		waits := func() bool { return opstest.Value(t, registry, "qioi_gateway_window_waiting") == 1 }
		require.Eventually(t, func() bool { return waits() || len(third) == 1 }, time.Minute, time.Millisecond)
		waited = inside(2)() && simulated.Load() == 2 && waits()
		f.ledger.add(f.World, nil, one)
		require.NoError(t, <-third)
		assert.Equal(t, int64(3), simulated.Load())
		f.ledger.add(f.World, nil, other)
		require.Eventually(t, inside(0), time.Minute, time.Millisecond)
		return waited
	}
	for end := time.Now().Add(time.Minute); !try(); {
		require.True(t, time.Now().Before(end), "the third proposal has not waited")
	}
}

// submitted has a transaction endorsed and ordered.
func (f *fixture) submitted() []byte {
	request := f.request(peertest.Proposal{})
	answer, err := f.client.Endorse(context.Background(), request)
	require.NoError(f.t, err)
	prepared := answer.GetPreparedTransaction()
	prepared.Signature = []byte("signature")
	_, err = f.client.Submit(context.Background(), &gatewaypb.SubmitRequest{
		TransactionId: request.TransactionId, ChannelId: peertest.Channel, PreparedTransaction: prepared,
	})
	require.NoError(f.t, err)
	raw, err := proto.Marshal(prepared)
	require.NoError(f.t, err)
	return raw
}

// What is refused on its way gives its place back at once.
func TestWhatFailsIsNotInTheWindow(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := startIn(t, channelconfig.Stream, func(c *gateway.Config) { c.ConcurrencyLimit, c.Registry = 1, registry })
	f.set("peer0-org1", answers(500, "no"))
	for range 3 {
		_, err := f.client.Endorse(context.Background(), f.request(peertest.Proposal{}))
		require.Error(t, err)
	}
	f.set("peer0-org1", writes("k", "v"))
	for _, o := range f.orderers {
		o.saying(commonpb.Status_FORBIDDEN, "no")
	}
	for range 3 {
		request := f.request(peertest.Proposal{})
		answer, err := f.client.Endorse(context.Background(), request)
		require.NoError(t, err)
		answer.PreparedTransaction.Signature = []byte("signature")
		_, err = f.client.Submit(context.Background(), &gatewaypb.SubmitRequest{
			TransactionId: request.TransactionId, ChannelId: peertest.Channel, PreparedTransaction: answer.PreparedTransaction,
		})
		require.Error(t, err)
		assert.Zero(t, opstest.Value(t, registry, "qioi_gateway_window_inside"))
	}
}

// TestAPlaceIsOfTheTransactionItself, whatever the client calls it: one that names others' could hold places for ever, or
// take theirs, and the window would learn nothing.
func TestAPlaceIsOfTheTransactionItself(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := startIn(t, channelconfig.Stream, func(c *gateway.Config) { c.Registry = registry })
	require.Eventually(t, func() bool { // again, where signing took longer than a place is kept
		request := f.request(peertest.Proposal{})
		id := request.TransactionId
		request.TransactionId = "one lie"
		answer, err := f.client.Endorse(context.Background(), request)
		if !assert.NoError(t, err) {
			return true
		}
		answer.PreparedTransaction.Signature = []byte("signature")
		_, err = f.client.Submit(context.Background(), &gatewaypb.SubmitRequest{
			TransactionId: "another", ChannelId: peertest.Channel, PreparedTransaction: answer.PreparedTransaction,
		})
		raw, marshalErr := proto.Marshal(answer.PreparedTransaction)
		if !assert.NoError(t, errors.Join(err, marshalErr)) {
			return true
		}
		f.ledger.add(f.World, map[string]peerpb.TxValidationCode{id: peerpb.TxValidationCode_MVCC_READ_CONFLICT}, raw)
		return opstest.Value(t, registry, "qioi_gateway_window_places") < 500
	}, 30*time.Second, 10*time.Millisecond, "the window has not learned of the conflict")
}
