package replica

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
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
