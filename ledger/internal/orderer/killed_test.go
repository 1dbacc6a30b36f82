package orderer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// load orders envelopes from several clients until told to stop, and records which were acknowledged.
type load struct {
	mu    sync.Mutex
	acked map[string]bool
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func startLoad(c *testCluster, clients int) (l *load, stop func()) {
	l = &load{acked: map[string]bool{}}
	ctx, cancel := context.WithCancel(c.t.Context())
	var group errgroup.Group
	for id := range clients {
		group.Go(func() error {
			for n := 0; ctx.Err() == nil; n++ {
				text := fmt.Sprintf("client %d, %d", id, n)
				env, err := c.envelope(ch, text)
				if err != nil {
					return err
				}
				r, err := c.broadcast(ctx, (id+n)%3, env)
				if err == nil && r.Status == commonpb.Status_SUCCESS {
					l.mu.Lock()
					l.acked[text] = true
					l.mu.Unlock()
				}
			}
			return nil
		})
	}
	return l, func() { cancel(); require.NoError(c.t, group.Wait()) }
}

func (l *load) waitFor(t *testing.T, n int) {
	t.Helper()
	start := l.count()
	require.Eventually(t, func() bool { return l.count() >= start+n }, patience, 10*time.Millisecond)
}

// check compares the chains of all orderers with each other and with what was acknowledged. All have what level has
// waited for; what clients had sent before they left may have been ordered even later, and not be everywhere yet.
func (l *load) check(t *testing.T, c *testCluster, end string) {
	t.Helper()
	var hashes, texts []string
	for i := range 3 {
		h, x := c.chainOnDisk(i, ch)
		if len(h) > len(hashes) {
			hashes, texts = h, x
		}
	}
	seen := map[string]int{}
	for _, text := range texts {
		seen[text]++
	}
	for text := range l.acked {
		assert.Positive(t, seen[text], "%s was acknowledged and is lost", text)
	}
	for i := range 3 {
		h, x := c.chainOnDisk(i, ch)
		assert.Equal(t, hashes[:len(h)], h, "orderer %d has another chain", i+1)
		assert.Contains(t, x, end, "orderer %d is behind", i+1)
	}
}

// level waits until all three orderers have given out a transaction that is ordered now, in a sealed block, and says which.
func level(t *testing.T, c *testCluster) (end string) {
	t.Helper()
	end = fmt.Sprint("the end ", time.Now().UnixNano())
	c.order(c.message(ch, end))
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		stream := c.follow(ctx, i, ch, &streampb.Position{Block: 1})
		for last, sealed := false, false; !sealed; {
			batch, err := stream.Recv()
			require.NoError(t, err)
			for _, item := range batch.Items {
				last = last || strings.Contains(string(item.GetTx()), end)
				sealed = last && item.GetSeal() != nil
			}
		}
		cancel()
	}
	return end
}

func TestKilledOrderersLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t, func(o *setup.Options) { o.VirtualBlockTxs, o.SnapshotBytes = 7, 64<<10 })
	end := make([]func(os.Signal), 3)
	for i := range 3 {
		end[i] = c.spawn(i)
	}
	c.order(c.message(ch, "first"))
	l, stop := startLoad(c, 6)
	for round := range 4 { // each is killed at least once, so is the leader, whoever it is
		l.waitFor(t, 150)
		end[round%3](syscall.SIGKILL)
		l.waitFor(t, 50) // the other two go on
		end[round%3] = c.spawn(round % 3)
	}
	l.waitFor(t, 100)
	for i := range 3 { // all at once
		end[i](syscall.SIGKILL)
	}
	for i := range 3 {
		end[i] = c.spawn(i)
	}
	l.waitFor(t, 100)
	stop()
	last := level(t, c)
	for i := range 3 {
		end[i](syscall.SIGTERM) // a clean end writes all blocks out; after a SIGKILL the log still has the last ones
	}
	l.check(t, c, last)
}

func TestAnOrdererThatWasAwayCatchesUpFromASnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t, func(o *setup.Options) { o.VirtualBlockTxs, o.SnapshotBytes = 10, 32<<10 })
	end := make([]func(os.Signal), 3)
	for i := range 3 {
		end[i] = c.spawn(i)
	}
	c.order(c.message(ch, "first"))
	l, stop := startLoad(c, 4)
	l.waitFor(t, 50)
	end[2](syscall.SIGKILL)
	l.waitFor(t, 400) // far more than the log keeps
	end[2] = c.spawn(2)
	l.waitFor(t, 50)
	stop()
	last := level(t, c)
	for i := range 3 {
		end[i](syscall.SIGTERM)
	}
	l.check(t, c, last)
	said, err := os.ReadFile(filepath.Join(c.dir, c.node(2).Log))
	require.NoError(t, err)
	assert.Contains(t, string(said), "Taking snapshot at index")
}
