package cchost_test

import (
	"context"
	"errors"
	"strconv"
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
	}, longest, time.Millisecond)
	require.ErrorContains(t, err, "anew")
}

// TestAbandonedTransactionsTakeNoPlaces of those that somebody waits for. They have a bound of their own, and their keys stay
// taken up to it and at it.
func TestAbandonedTransactionsTakeNoPlaces(t *testing.T) {
	entered, release := make(chan string), make(chan struct{})
	at, _ := serve(t, "probe", "127.0.0.1:0", probe(entered, release))
	f := start(t, cchost.Config{Chaincodes: []cchost.Chaincode{{Name: "probe", Address: at}}, MaxRunning: 1}).await("probe")
	put := func(tx string) error {
		_, _, _, err := f.simulate(context.Background(), tx, "probe", "put", "a", "b")
		return err
	}
	const most = 10 // for a place
	for i := range most {
		require.NoError(t, put("put "+strconv.Itoa(i)))
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-entered; cancel() }()
		_, _, _, err := f.simulate(ctx, strconv.Itoa(i), "probe", "wait")
		require.ErrorIs(t, err, context.Canceled)
	}
	err := put("another")
	require.ErrorIs(t, err, cchost.ErrBusy)
	require.ErrorContains(t, err, "10 that nobody waits for still run, at most 10 are accepted: restart the chaincode if they hang")
	for i := range most {
		require.ErrorIs(t, put(strconv.Itoa(i)), cchost.ErrRunning)
	}
	release <- struct{}{} // one of them ends
	require.Eventually(t, func() bool { return put("another") == nil }, longest, time.Millisecond)
	close(release)
	for i := range most {
		require.Eventually(t, func() bool { return put(strconv.Itoa(i)) == nil }, longest, time.Millisecond)
	}
}
