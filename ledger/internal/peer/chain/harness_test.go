package chain

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/peertest"
)

// longest is far more than anything takes. All that it decides is that a test has failed.
const longest = 2 * time.Minute

// rig runs a chain and feeds it as the follower does.
type rig struct {
	*Chain
	t      testing.TB
	dir    string
	orders *peertest.Orderer
	// covered is how many transactions did not have to be replayed at the start.
	covered uint64
	open    [][]byte
	cancel  context.CancelFunc
	ended   chan error
}

func startRig(t testing.TB, w *peertest.World, dir string, opts Options) *rig {
	t.Helper()
	c, err := Open(dir, w.Genesis, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{Chain: c, t: t, dir: dir, orders: w.NewOrderer(), covered: c.saved.covered, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- c.Run(ctx) }()
	t.Cleanup(func() { r.stop() })
	return r
}

// stop ends the run and gives its error; the second time nil.
func (r *rig) stop() error {
	if r.cancel == nil {
		return nil
	}
	r.cancel()
	r.cancel = nil
	err := <-r.ended
	require.NoError(r.t, r.Close())
	return err
}

func (r *rig) add(raw []byte) {
	r.t.Helper()
	require.NoError(r.t, r.Add(context.Background(), raw))
	r.open = append(r.open, raw)
}

func (r *rig) seal() {
	r.t.Helper()
	header, metadata := r.orders.Seal(r.open)
	require.NoError(r.t, r.Seal(context.Background(), header, metadata))
	r.open = nil
}

// settle waits until everything received is durable. Of an open block that orderers must vouch for nobody is told.
func (r *rig) settle() {
	r.t.Helper()
	if r.Needed() > 1 && len(r.open) > 0 {
		r.onDisk()
		return
	}
	for deadline := time.Now().Add(longest); r.durable() != r.Position() || r.Height() != r.Position().Block; time.Sleep(time.Millisecond) {
		select {
		case err := <-r.ended:
			r.ended <- err
			r.t.Fatalf("the chain ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatal("nothing moves")
		}
	}
}

func (r *rig) durable() Position {
	r.ledger.index.mu.Lock()
	defer r.ledger.index.mu.Unlock()
	return r.ledger.index.durable
}

// status is the committed verdict on an id. Tests wait for it on goroutines of their own, which may not end them.
func (r *rig) status(id string) Status {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	s, err := r.Status(ctx, id)
	assert.NoError(r.t, err)
	return s
}

// fingerprint is all that peers must agree on.
func (r *rig) fingerprint() (out []string) {
	for n := range r.Height() {
		b, err := r.Block(n)
		require.NoError(r.t, err)
		out = append(out, hex.EncodeToString(b.Header.DataHash)+" "+hex.EncodeToString(Flags(b))+" "+hex.EncodeToString(CommitHash(b)))
	}
	hash := r.Snapshot().Hash()
	return append(out, hex.EncodeToString(hash[:]))
}

func streamWorld(t testing.TB) *peertest.World {
	return peertest.New(t, peertest.Options{Mode: channelconfig.Stream})
}

// smallSegments makes every test cross the border between files.
var smallSegments = blockfile.Options{SegmentBytes: 16 << 10}
