package sequencer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
)

// serve answers for a log of the channel ch.
func serve(t *testing.T) sequencerpb.SequencerClient {
	t.Helper()
	_, address, _ := start(t)
	return dial(t, address)
}

// TestManyOrderAtOnce: each blob has the number that its client was told, and no other one has it.
func TestManyOrderAtOnce(t *testing.T) {
	client := serve(t)
	const clients, each = 4, 1000 // more than a stream's window
	want := make([]string, clients*each*2)
	var mu sync.Mutex
	var running sync.WaitGroup
	for c := range clients {
		stream, err := client.Order(t.Context())
		require.NoError(t, err)
		running.Go(func() {
			for i := range each {
				assert.NoError(t, stream.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs(fmt.Sprint(c, i, "a"), fmt.Sprint(c, i, "b"))}))
			}
		})
		running.Go(func() {
			for i := range each {
				in, err := stream.Recv()
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				assert.Empty(t, want[in.First-1])
				want[in.First-1], want[in.First] = fmt.Sprint(c, i, "a"), fmt.Sprint(c, i, "b")
				mu.Unlock()
			}
		})
	}
	get, err := client.Get(t.Context(), &sequencerpb.GetRequest{Channel: "ch", Number: 1}) // while they order
	require.NoError(t, err)
	var got []string
	var chain Chain
	for len(got) < len(want) {
		batch, err := get.Recv()
		require.NoError(t, err)
		require.EqualValues(t, len(got)+1, batch.First)
		for _, blob := range batch.Blobs {
			got = append(got, string(blob))
			chain = chain.After(blob)
		}
		require.Equal(t, chain[:], batch.Chain)
	}
	running.Wait()
	assert.Equal(t, want, got)
	last, err := client.Last(t.Context(), &sequencerpb.LastRequest{Channel: "ch"})
	require.NoError(t, err)
	assert.EqualValues(t, len(want), last.Number)
	assert.Equal(t, chain[:], last.Chain)
}

func TestWhatIsNotThereIsRefused(t *testing.T) {
	client := serve(t)
	_, err := client.Last(t.Context(), &sequencerpb.LastRequest{Channel: "other"})
	assert.Equal(t, codes.NotFound, status.Code(err))
	for _, number := range []uint64{0, 2} {
		get, err := client.Get(t.Context(), &sequencerpb.GetRequest{Channel: "ch", Number: number})
		require.NoError(t, err)
		_, err = get.Recv()
		assert.Equal(t, codes.OutOfRange, status.Code(err), number)
	}
	order, err := client.Order(t.Context())
	require.NoError(t, err)
	require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch"}))
	_, err = order.Recv()
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
}

// TestWhatTheLogCannotKeepIsRefused, and what no facade could read. Other requests are served.
func TestWhatTheLogCannotKeepIsRefused(t *testing.T) {
	_, address, _ := startWith(t, func(s *Server) { s.mostBlob, s.mostRequest = 10, 10*blobHead })
	large := strings.Repeat("x", 10)
	ordered := func(request ...string) error {
		order, err := dial(t, address).Order(t.Context())
		require.NoError(t, err)
		require.NoError(t, order.Send(&sequencerpb.OrderRequest{Channel: "ch", Blobs: blobs(request...)}))
		_, err = order.Recv()
		return err
	}
	for what, request := range map[string][]string{
		"a blob too large": {"a", large + "x"}, "too many blobs": make([]string, 11), "too much": {large, large, large, large, large, large, large, large, large},
	} {
		require.Equal(t, codes.InvalidArgument, status.Code(ordered(request...)), what)
		serves(t, address)
	}
	require.NoError(t, ordered(make([]string, 10)...))
	require.NoError(t, ordered(large, large, large, large, large, large, large))
}

// TestSeriesSayWhatIsOrdered.
func TestSeriesSayWhatIsOrdered(t *testing.T) {
	s := NewServer(map[string]*Log{"ch": open(t, t.TempDir())})
	registry := prometheus.NewRegistry()
	s.Register(registry)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, s.Run(ctx)) })
	first := make(chan uint64, 1)
	s.channels["ch"].waiting <- request{blobs: blobs("a", "b"), first: first}
	<-first
	cancel()
	running.Wait()
	for name, value := range map[string]float64{
		"qioi_sequencer_ordered_total": 2, "qioi_sequencer_queue_depth": 0, "qioi_sequencer_write_seconds_count": 1,
	} {
		assert.Equal(t, value, opstest.Value(t, registry, name, `channel="ch"`), name)
	}
}
