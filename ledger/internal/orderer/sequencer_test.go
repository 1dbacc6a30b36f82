package orderer

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/network"
	facade "github.com/qioi/qioi/ledger/internal/orderer/consensus/sequencer"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// sequencerEnv has the test binary be the sequencer with these arguments, one a line.
const sequencerEnv = "QIOI_TEST_SEQUENCER"

func runSequencer(args string) error {
	cmd := sequencer.Command()
	cmd.SetArgs(strings.Split(args, "\n"))
	return cmd.Execute()
}

// newSequencerCluster is orderers, and one node more that is their sequencer.
func newSequencerCluster(t testing.TB, change func(*setup.Options)) (c *testCluster, at int) {
	t.Helper()
	c = newCluster(t, func(o *setup.Options) { o.Consenter = "sequencer"; change(o) })
	slices.SortStableFunc(c.file.Nodes, func(a, b network.Node) int { return rank(a) - rank(b) })
	return c, slices.IndexFunc(c.file.Nodes, func(n network.Node) bool { return n.Role == "broker" })
}

// spawnSequencer runs the sequencer as a process of its own.
func (c *testCluster) spawnSequencer(i int) (end func(os.Signal)) {
	c.t.Helper()
	end, _ = c.spawnSequencerProcess(i)
	return end
}

// spawnSequencerProcess says which process it is as well.
func (c *testCluster) spawnSequencerProcess(i int) (end func(os.Signal), pid int) {
	c.t.Helper()
	return c.spawnAs(i, []string{sequencerEnv + "=" + strings.Join(c.node(i).Args[1:], "\n")})
}

// TestAFacadeReadsWhatBecameLarger, be it later than the configuration that it has started with says.
func TestAFacadeReadsWhatBecameLarger(t *testing.T) {
	c, at := newSequencerCluster(t, func(o *setup.Options) { o.AbsoluteMaxBytes, o.PreferredMaxBytes = 1<<20, 1<<20 })
	c.spawnSequencer(at)
	facade, stop := c.startNode(0)
	c.start(1)
	c.order(c.updateTo(largest(16<<20), ordererAdmins))
	require.Eventually(t, func() bool { return facade.channels[ch].Bundle().Sequence == 1 }, patience, time.Millisecond)
	stop()
	c.start(0)
	large := strings.Repeat("x", 9<<20)
	c.order(c.message(ch, large))
	assert.Equal(t, large, c.texts(1, ch, &streampb.Position{Block: 1}, 2)[1])
}

// TestTheSequencerOrdersForAllAlike, while it and its facades are killed by turns in the middle of blocks.
func TestTheSequencerOrdersForAllAlike(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for mode, change := range map[string]func(*setup.Options){
		"stream":  func(o *setup.Options) { o.VirtualBlockTxs = 4 },
		"block":   func(o *setup.Options) { o.Mode, o.MaxMessageCount, o.BatchTimeout = "block", 4, 100*time.Millisecond },
		"memory":  func(o *setup.Options) { o.SequencerMemory = true },
		"plainly": func(o *setup.Options) { o.NoTLS, o.VirtualBlockTxs = true, 4 },
	} {
		t.Run(mode, func(t *testing.T) {
			c, at := newSequencerCluster(t, change)
			facades := []func(os.Signal){c.spawn(0), c.spawn(1), c.spawn(2)} // before the sequencer
			end := c.spawnSequencer(at)
			var want []string
			for i := range 30 {
				text := fmt.Sprint("tx", i)
				c.orderAt(i%3, text)
				want = append(want, text)
				switch i % 6 {
				case 2:
					end(syscall.SIGKILL)
					end = c.spawnSequencer(at)
				case 4:
					victim := i / 6 % 3
					facades[victim](syscall.SIGKILL)
					facades[victim] = c.spawn(victim)
				}
			}
			for i := range 3 {
				assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
			}
			// The last two may be in a block that only its time ends.
			hashes := map[uint64]string{}
			last := c.sealed(0, want)
			for i := range 3 {
				blocks, err := c.blocks(i, ch, 1, last)
				require.NoError(t, err)
				for _, b := range blocks {
					hash := fmt.Sprintf("%x %x", b.Header.DataHash, b.Header.PreviousHash)
					if before, is := hashes[b.Header.Number]; is {
						assert.Equal(t, before, hash, "block %d of orderer %d", b.Header.Number, i)
					}
					hashes[b.Header.Number] = hash
				}
			}
		})
	}
}

// TestAnotherLogEndsTheFacade, running or restarted: it would go on with a chain that no other one has.
func TestAnotherLogEndsTheFacade(t *testing.T) {
	c, at := newSequencerCluster(t, func(o *setup.Options) { o.Orderers, o.VirtualBlockTxs = 1, 2 })
	end := c.spawnSequencer(at)
	node := c.open(0)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(t.Context()) }()
	for i := range 8 {
		c.orderAt(0, fmt.Sprint(i))
	}
	c.texts(0, ch, &streampb.Position{Block: 1}, 8)
	end(syscall.SIGKILL)
	require.NoError(t, os.RemoveAll(filepath.Join(c.dir, c.node(at).Data)))
	c.spawnSequencer(at)
	require.ErrorIs(t, <-ended, facade.ErrLost)
	require.ErrorIs(t, c.open(0).Run(t.Context()), facade.ErrLost)
}

// silentAt accepts connections in a node's place and says nothing, until end.
func (c *testCluster) silentAt(i int) (accepted <-chan struct{}, end func()) {
	c.t.Helper()
	listener, err := net.Listen("tcp", c.node(i).Address)
	require.NoError(c.t, err)
	first := make(chan struct{})
	told := sync.OnceFunc(func() { close(first) })
	return first, c.hold(listener, func(net.Conn) { told() })
}

// hold accepts connections, greets each beside the others, and keeps them until end.
func (c *testCluster) hold(listener net.Listener, greet func(net.Conn)) (end func()) {
	c.t.Helper()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			held = append(held, conn)
			accepting.Go(func() { greet(conn) })
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	})
	end = sync.OnceFunc(func() {
		_ = listener.Close()
		accepting.Wait()
	})
	c.t.Cleanup(end)
	return end
}

// standsStill stops all threads of a process.
func (c *testCluster) standsStill(pid int) {
	c.t.Helper()
	require.NoError(c.t, syscall.Kill(pid, syscall.SIGSTOP))
	require.Eventually(c.t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		require.NoError(c.t, err)
		return len(threads) > 0 && !slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			return err != nil || !strings.Contains(string(stat), ") T ")
		})
	}, patience, time.Millisecond)
}

// awayAt has clients ask a facade that runs, or is starting, until it says that the sequencer is away. What it tells them before
// is that it does not know.
func (c *testCluster) awayAt(i int, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for {
		answer, err := c.answer(ctx, i, c.message(ch, text))
		if err != nil {
			require.NoError(c.t, ctx.Err(), "no answer")
			time.Sleep(10 * time.Millisecond)
			continue
		}
		require.Equal(c.t, commonpb.Status_SERVICE_UNAVAILABLE, answer.Status, answer.Info)
		if answer.Info == facade.ErrAway.Error() {
			return
		}
		require.Contains(c.t, answer.Info, "the transaction may or may not get ordered")
	}
}

// TestFacadesBesideASilentSequencer tell their clients that nothing is ordered, and go on with one that answers. First
// somebody accepts connections in its place; then it stands still while it orders, and its kernel accepts; then it is killed.
func TestFacadesBesideASilentSequencer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c, at := newSequencerCluster(t, func(o *setup.Options) { o.Orderers, o.VirtualBlockTxs = 2, 4 })
	accepted, hangUp := c.silentAt(at)
	for i := range 2 {
		end := c.spawn(i)
		c.awayAt(i, fmt.Sprint("early ", i))
		end(syscall.SIGTERM) // it waits for nobody
		c.spawn(i)
		c.awayAt(i, fmt.Sprint("early again ", i))
	}
	<-accepted
	hangUp()

	kill, pid := c.spawnSequencerProcess(at)
	var want []string
	order := func(texts ...string) {
		for i, text := range texts {
			c.orderAt(i%2, text)
			want = append(want, text)
		}
	}
	order("a", "b", "c")
	c.standsStill(pid)
	for i := range 2 { // they wait for an answer, each for its bound, until the connection counts as broken
		c.awayAt(i, fmt.Sprint("unanswered ", i))
	}
	kill(syscall.SIGKILL)
	c.spawnSequencer(at)
	order("d", "e", "f")
	for i := range 2 {
		assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
	}
}
