package clients

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestLatencyCountsFromTheFirstSending: how long a transaction waits until its client turns to all replicas is a part.
func TestLatencyCountsFromTheFirstSending(t *testing.T) {
	run := plan.Default()
	run.Clients, run.Retry, run.Auth = 1, 40*time.Millisecond, auth.None
	keys, err := auth.NewKeys(run.Auth, run.Replicas, 1)
	require.NoError(t, err)
	m, err := New(run, keys, 0)
	require.NoError(t, err)
	measured := m.Measure()

	began := time.Now()
	m.ready <- []uint32{0}
	end := works(t, m)
	retries := func() (count int64) {
		m.count(func(c *Counts) { count = c.Retries })
		return count
	}
	require.Eventually(t, func() bool { return retries() >= 3 }, time.Minute, time.Millisecond)
	end()

	answered(m)
	waited := time.Since(began)
	found := measured()
	assert.EqualValues(t, run.Load.Burst, found.Done)
	assert.GreaterOrEqual(t, found.Latency.Min(), 3*run.Retry.Microseconds()*99/100)
	assert.LessOrEqual(t, found.Latency.Min(), waited.Microseconds()*101/100)
}

// TestARetryIsTheSameTransaction, byte for byte, and comes to an end with it.
func TestARetryIsTheSameTransaction(t *testing.T) {
	run := plan.Default()
	run.Clients, run.Retry = 2, 10*time.Millisecond
	keys, err := auth.NewKeys(run.Auth, run.Replicas, 1)
	require.NoError(t, err)
	m, err := New(run, keys, 0)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	require.NoError(t, m.Connect(map[bft.ID]string{1: listener.Addr().String()}, nil))
	defer func() { require.NoError(t, m.conns[1].Close()) }()
	raw, err := listener.Accept()
	require.NoError(t, err)
	replica := link.New(raw, nil)
	defer func() { require.NoError(t, replica.Close()) }()
	hello, err := replica.Next()
	require.NoError(t, err)
	require.Equal(t, byte(link.Hello), hello[0])

	m.ready <- []uint32{0}
	defer works(t, m)()
	first, err := replica.Next()
	require.NoError(t, err)
	for range 3 {
		again, err := replica.Next()
		require.NoError(t, err)
		assert.Equal(t, first, again)
	}

	answered(m)
	assert.Zero(t, m.tried[0].Load(), "none is under way")
}

// TestALatencyBeyondTheHistogramsBoundsCounts as its largest: that one waits for two minutes is told by nothing else.
func TestALatencyBeyondTheHistogramsBoundsCounts(t *testing.T) {
	h := newHistogram()
	record(h, time.Hour)
	assert.EqualValues(t, 1, h.TotalCount())
	assert.InEpsilon(t, (2 * time.Minute).Microseconds(), h.Max(), 0.05)
}

// works has a machine send, and send again, until end or the test's end.
func works(t *testing.T, m *Machine) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, work := range []func(context.Context) error{m.send, m.retry} {
		running.Go(func() { assert.ErrorIs(t, work(ctx), context.Canceled) })
	}
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(end)
	return end
}

// answered has as many replicas answer the first client's transaction as it needs.
func answered(m *Machine) {
	body := &bft.Writer{}
	body.Uint(1)
	body.Digest(bft.Digest{})
	body.Chunk(ycsb.AppendAnswer(nil, 0, 1))
	for id := range bft.ID(m.need) {
		m.weigh(answer{id + 1, body.Bytes})
	}
}
