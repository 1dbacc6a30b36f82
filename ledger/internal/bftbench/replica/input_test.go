package replica

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/link"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
	"github.com/qioi/qioi/ledger/internal/stage"
)

// lone is a replica that nobody runs, and the keys of its group.
func lone(t *testing.T, id bft.ID, stages plan.Stages) (*Replica, auth.Keys) {
	run := plan.Default()
	run.Stages, run.Load.Records, run.Batch = stages, 100, 2
	keys, err := auth.NewKeys(run.Auth, run.Replicas, 1)
	require.NoError(t, err)
	r, err := New(Config{Run: run, ID: id, Keys: keys, Folder: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.listener.Close() })
	return r, keys
}

// TestAReplicaThatTakesNoConnectionsSaysWhy, unless it ends.
func TestAReplicaThatTakesNoConnectionsSaysWhy(t *testing.T) {
	r, _ := lone(t, 1, plan.Default().Stages)
	require.NoError(t, r.listener.Close())
	require.ErrorIs(t, r.accept(context.Background()), net.ErrClosed)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, r.accept(ctx), context.Canceled)
}

// TestWithoutInputThreadsTheBatchStageVerifies what the worker has decoded, as far as there is room.
func TestWithoutInputThreadsTheBatchStageVerifies(t *testing.T) {
	stages := plan.Stages{Batch: 2, Execute: 1, Checkpoint: 1, Output: 2}
	primary, keys := lone(t, 1, stages)
	client, err := auth.New(keys, auth.Machine(0))
	require.NoError(t, err)
	load := primary.cfg.Run.Load
	source := ycsb.NewSource(load, load.Law(), 1)
	requests := &bft.Writer{Bytes: []byte{link.Requests}}
	source.Append(requests, client.Requests, 1, 1)
	source.Append(requests, client.Requests, 2, 1)
	ctx := context.Background()
	require.NoError(t, primary.worker.take(ctx, task{frame: requests.Bytes}))
	require.Len(t, primary.batches, 1)
	assert.Zero(t, primary.worker.core.View().Last)
	span := primary.meters[stage.Batch].Begin()
	made := primary.prepare(stage.Take(&span, <-primary.batches))
	require.NoError(t, primary.worker.take(ctx, made))
	assert.Empty(t, primary.batches)
	assert.Equal(t, uint64(1), primary.worker.core.View().Last)

	proposal := primary.frame(&spelling{message: &pbft.PrePrepare{Seq: 1, Entry: &bft.Entry{Txs: [][]byte{made.batch}}}})
	backup, _ := lone(t, 2, stages)
	require.NoError(t, backup.worker.take(ctx, task{frame: proposal, from: 1}))
	assert.Len(t, backup.batches, 1)

	primary.batches = make(chan stage.Waiting[task])
	require.NoError(t, primary.worker.take(ctx, task{frame: requests.Bytes}))
	assert.Equal(t, uint64(2), primary.worker.core.View().Last, "the batch threads would wait for the worker, too")
}
