package cchost_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/peer/cchost"
	"github.com/qioi/qioi/ledger/internal/peer/rwset"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// TestAnAbandonedTransactionRunsAlone: the same proposal, sent again, would be endorsed with writes of the first run, and
// without what that one has read.
func TestAnAbandonedTransactionRunsAlone(t *testing.T) {
	began, told := make(chan struct{}), make(chan struct{})
	goOn, ended := make(chan struct{}), make(chan struct{})
	put := message(peerpb.ChaincodeMessage_PUT_STATE, &peerpb.PutState{Key: "k", Value: []byte("late")})
	f := playing(t, func(st stream) error {
		register(t, st)
		tx, err := st.Recv()
		if err != nil {
			return err
		}
		end := func() {
			done := message(peerpb.ChaincodeMessage_COMPLETED, &peerpb.Response{Status: 200})
			done.Txid, done.ChannelId = tx.GetTxid(), tx.GetChannelId()
			assert.NoError(t, st.Send(done))
		}
		close(began)
		<-goOn
		assert.Equal(t, peerpb.ChaincodeMessage_ERROR, ask(t, st, tx, put).GetType())
		close(told)
		<-goOn
		end()
		ask(t, st, &peerpb.ChaincodeMessage{Txid: "of nobody"}, message(peerpb.ChaincodeMessage_GET_STATE, &peerpb.GetState{Key: "k"}))
		close(ended) // the peer has read it
		if tx, err = st.Recv(); err != nil {
			return err
		}
		end()
		<-st.Context().Done()
		return nil
	}).await("cc")
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	_, _, _, err := f.simulate(ctx, "tx", "cc", "go")
	require.ErrorIs(t, err, context.Canceled)
	again := func() (*rwset.Set, error) {
		_, _, set, err := f.simulate(context.Background(), "tx", "cc", "go")
		return set, err
	}
	_, err = again()
	require.ErrorIs(t, err, cchost.ErrRunning)
	goOn <- struct{}{}
	<-told
	_, err = again()
	require.ErrorIs(t, err, cchost.ErrRunning, "its question was refused, and it goes on")
	goOn <- struct{}{}
	<-ended
	set, err := again()
	require.NoError(t, err)
	assert.Empty(t, set.Writes)
}

// TestAbandonedTransactionsEndWithTheStream: a chaincode that comes back runs none of them.
func TestAbandonedTransactionsEndWithTheStream(t *testing.T) {
	hangUp, began := make(chan struct{}), make(chan struct{}, 1)
	f := playing(t, func(st stream) error {
		register(t, st)
		tx, err := st.Recv()
		if err != nil {
			return err
		}
		select {
		case <-hangUp: // it is the second stream
			return st.Send(&peerpb.ChaincodeMessage{
				Type: peerpb.ChaincodeMessage_ERROR, Payload: []byte("anew"), Txid: tx.GetTxid(), ChannelId: tx.GetChannelId(),
			})
		default:
		}
		began <- struct{}{}
		<-hangUp
		return nil
	}).await("cc")
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	_, _, _, err := f.simulate(ctx, "tx", "cc", "go")
	require.ErrorIs(t, err, context.Canceled)
	close(hangUp)
	require.Eventually(t, func() bool {
		_, _, _, err = f.simulate(context.Background(), "tx", "cc", "go")
		return errors.Is(err, cchost.ErrFailed)
	}, 30*time.Second, time.Millisecond)
	require.ErrorContains(t, err, "anew")
}
