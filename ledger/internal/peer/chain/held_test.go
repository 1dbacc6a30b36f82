package chain

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
)

func blockWorld(t testing.TB) *peertest.World {
	return peertest.New(t, peertest.Options{Mode: channelconfig.Block})
}

const poll = time.Millisecond

// onDisk waits until the pipeline has done all that it does with the transactions received, told or not.
func (r *rig) onDisk() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.pipeline.bytes.TryAcquire(queueBytes) }, longest, poll)
	r.pipeline.bytes.Release(queueBytes)
}

// untold asserts that nobody hears of a transaction.
func (r *rig) untold(id string) {
	r.t.Helper()
	_, err := r.Find(id)
	assert.ErrorIs(r.t, err, ErrNotFound)
	over, cancel := context.WithCancel(context.Background())
	cancel() // what is known is told all the same
	_, err = r.Status(over, id)
	assert.ErrorIs(r.t, err, context.Canceled)
}

// unknown asserts that nobody hears of a transaction that writes the key, or simulates on it.
func (r *rig) unknown(id, key string) {
	r.t.Helper()
	r.untold(id)
	assert.Nil(r.t, r.Snapshot().Get("kv", key), "nobody simulates on it")
}

// TestInBlockModeNothingIsToldBeforeTheSeal, also not to those who ask while the transactions are on disk already, and
// not by metrics.
func TestInBlockModeNothingIsToldBeforeTheSeal(t *testing.T) {
	w := blockWorld(t)
	registry := prometheus.NewRegistry()
	r := startRig(t, w, t.TempDir(), Options{Metrics: NewMetrics(registry)})
	raw, id := w.Make(put(w, "a", "1"))
	waited := make(chan Status, 1)
	go func() { waited <- r.status(id) }()
	r.add(raw)
	r.onDisk()
	r.unknown(id, "a")
	assert.True(t, math.IsNaN(opstest.Value(t, registry, "ledger_transaction_count")))
	select {
	case <-waited:
		t.Fatal("told before the seal")
	default:
	}
	r.seal()
	want := Status{Code: valid, Position: Position{1, 0}}
	assert.Equal(t, want, <-waited)
	assert.Equal(t, want, r.status(id))
	assert.Equal(t, "1", string(r.Snapshot().Get("kv", "a").Value))
	r.settle()
	assert.EqualValues(t, 1, opstest.Value(t, registry, "ledger_transaction_count"))
}

// TestASealThatIsVerifiedTellsNothingBeforeItIsOnDisk: stage 2 may be done with a seal while stage 3 has a transaction of
// its block, also where orderers' words count and none has come.
func TestASealThatIsVerifiedTellsNothingBeforeItIsOnDisk(t *testing.T) {
	for name, w := range map[string]*peertest.World{"block mode": blockWorld(t), "without words": liarsWorld(t)} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			r := startStage2(t, w, Options{Metrics: NewMetrics(registry)})
			raw, id := w.Make(put(w, "a", "1"))
			r.add(raw)
			tx := <-r.pipeline.results
			r.seal()
			seal := <-r.pipeline.results

			require.NoError(t, r.pipeline.flushGroup([]done{tx}))
			require.NoError(t, r.pipeline.flushGroup(nil), "a word may wake stage 3")
			r.untold(id)
			require.NoError(t, r.pipeline.flushGroup([]done{seal}))
			assert.Equal(t, Status{Position: Position{1, 0}}, r.status(id))
			assert.EqualValues(t, 1, toldBy(t, registry, "seal"))
			assert.Zero(t, toldBy(t, registry, "words"))
		})
	}
}

// startStage2 runs a chain without its stage 3, whose part is the test's.
func startStage2(t *testing.T, w *peertest.World, opts Options) *rig {
	c, err := Open(t.TempDir(), w.Genesis, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.pipeline.commit(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
	})
	return &rig{Chain: c, t: t, orders: w.NewOrderer()}
}

// TestABlocksTimesAreItsOwn, without those of transactions in its place that were taken back.
func TestABlocksTimesAreItsOwn(t *testing.T) {
	w := blockWorld(t)
	registry := prometheus.NewRegistry()
	r := startStage2(t, w, Options{Metrics: NewMetrics(registry)})
	require.NoError(t, r.Add(context.Background(), w.Raw(put(w, "a", "lie"))))
	require.NoError(t, r.pipeline.flushGroup([]done{<-r.pipeline.results}))
	// Spent on the lie:
	r.pipeline.validation, r.pipeline.state, r.pipeline.storage = time.Hour, time.Hour, time.Hour
	require.ErrorIs(t, r.Distrust(context.Background(), errors.New("it has no such place")), ErrRewound)
	distrust := <-r.pipeline.results
	require.Error(t, distrust.distrust)
	require.Equal(t, Position{1, 0}, r.Position())
	r.add(w.Raw(put(w, "a", "truth")))
	truth := <-r.pipeline.results
	r.seal()
	seal := <-r.pipeline.results
	assert.Less(t, seal.validation, time.Hour)
	assert.Less(t, seal.state, time.Hour)
	require.NoError(t, r.pipeline.flushGroup([]done{distrust, truth, seal}))
	stored := opstest.Value(t, registry, "ledger_blockstorage_and_pvtdata_commit_time_sum")
	assert.Positive(t, stored)
	assert.Less(t, stored, time.Hour.Seconds())
}

// TestInBlockModeALieIsToldToNobody: the seal does not verify, so the block is taken back, and none has to be told
// that what it has heard is not so.
func TestInBlockModeALieIsToldToNobody(t *testing.T) {
	w := blockWorld(t)
	r := startRig(t, w, t.TempDir(), Options{})
	lie, id := w.Make(put(w, "a", "lie"))
	truth, other := w.Make(put(w, "a", "truth"))
	waited := make(chan Status, 1)
	go func() { waited <- r.status(id) }()
	require.NoError(t, r.Add(context.Background(), lie))
	r.onDisk()
	r.unknown(id, "a")
	rewound := r.Rewound()
	header, metadata := r.orders.Seal([][]byte{truth})
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	<-rewound
	require.Equal(t, Position{1, 0}, r.Position())
	require.NoError(t, r.Add(context.Background(), truth))
	require.NoError(t, r.Seal(context.Background(), header, metadata))
	assert.Equal(t, Status{Position: Position{1, 0}}, r.status(other))
	r.settle()
	r.untold(id)
	assert.Equal(t, "truth", string(r.Snapshot().Get("kv", "a").Value))
	r.open = [][]byte{lie} // it comes again, after all
	require.NoError(t, r.Add(context.Background(), lie))
	r.seal()
	assert.Equal(t, Status{Position: Position{2, 0}}, <-waited)
}

// TestInBlockModeATailFromDiskIsToldAtItsSeal, and to those as well who ask before it.
func TestInBlockModeATailFromDiskIsToldAtItsSeal(t *testing.T) {
	w := blockWorld(t)
	dir := t.TempDir()
	r := startRig(t, w, dir, Options{})
	raw, id := w.Make(put(w, "a", "1"))
	r.add(raw)
	r.onDisk()
	orders, open := r.orders, r.open
	require.NoError(t, r.stop())
	r = startRig(t, w, dir, Options{})
	r.orders, r.open = orders, open
	require.Equal(t, Position{1, 1}, r.Position())
	waited := make(chan Status, 1)
	go func() { waited <- r.status(id) }()
	r.unknown(id, "a")
	r.seal()
	assert.Equal(t, Status{Position: Position{1, 0}}, <-waited)
	r.settle()
}
