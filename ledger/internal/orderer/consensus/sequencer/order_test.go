package sequencer

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/serving/servingtest"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// sink is a sequencer that takes all that is sent, and answers nothing of it.
type sink struct{ mute }

func (s *sink) Order(stream sequencerpb.Sequencer_OrderServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// TestWhatASequencerDoesNotAnswerIsBounded in bytes, and what is lost with it takes no room of the next one's.
func TestWhatASequencerDoesNotAnswerIsBounded(t *testing.T) {
	const size, most = 1 << 20, 128 << 20 // half of it waits to be sent
	silent, stop := servingtest.Serve(t, func(s *grpc.Server) { sequencerpb.RegisterSequencerServer(s, &sink{mute{reads: true}}) })
	address := startSequencer(t)
	n, _ := runs(t, &shared{}, func(k int) (net.Conn, error) {
		if k == 0 {
			return net.Dial("tcp", silent)
		}
		return net.Dial("tcp", address)
	})
	require.Eventually(t, n.connected.Load, longest, time.Millisecond)

	var settled atomic.Int64
	accepted, tx := 0, make([]byte, size)
	isMore := func() bool { return accepted*size > unansweredBytes } // than what may have been sent
	for refusals := 0; (refusals < 200 || !isMore()) && accepted*size <= most; {
		err := n.Submit(consensus.Proposal{Tx: tx, Settle: func(error) { settled.Add(1) }})
		if errors.Is(err, consensus.ErrOverload) { // it may be for a moment: what waits is on its way
			refusals++
			time.Sleep(time.Millisecond)
			continue
		}
		require.NoError(t, err)
		accepted, refusals = accepted+1, 0
	}
	assert.LessOrEqual(t, accepted*size, most, "and what waits to be sent")
	assert.Zero(t, settled.Load())

	stop()
	require.Eventually(t, func() bool { return settled.Load() == int64(accepted) }, longest, time.Millisecond)
	_, err := orders(n, "a")
	require.NoError(t, err)
	assert.True(t, n.askedBytes.TryAcquire(unansweredBytes))
}

// TestOneThatIsLargerThanTheBoundIsAlone, and does not wait for more room than there ever is.
func TestOneThatIsLargerThanTheBoundIsAlone(t *testing.T) {
	of := func(sizes ...int) (batch []consensus.Proposal) {
		for _, size := range sizes {
			batch = append(batch, consensus.Proposal{Tx: make([]byte, size)})
		}
		return batch
	}
	assert.EqualValues(t, 0, weight(nil))
	assert.EqualValues(t, 3, weight(of(1, 2)))
	assert.EqualValues(t, unansweredBytes, weight(of(1, unansweredBytes)))
}
