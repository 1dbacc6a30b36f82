package orderer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// tell has sources answer a round in vain, and says how often that was told.
func (a *answers) tell(t *testing.T, texts ...string) int {
	t.Helper()
	return strings.Count(opstest.Logged(t, func() {
		a.begin()
		for i, text := range texts {
			a.add(fmt.Sprint("orderer", i), errors.New(text))
		}
		a.warn("shop")
	}), "no blocks from other orderers: ")
}

// TestWhatSourcesAnswerIsToldWhenItChanges, and else every 30 s: no text that changes all the time floods the log.
func TestWhatSourcesAnswerIsToldWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		assert.Equal(t, 1, a.tell(t, "refused", "frozen"))
		told := 0
		for range 600 { // a minute
			time.Sleep(100 * time.Millisecond)
			told += a.tell(t, "refused", "frozen")
		}
		assert.Equal(t, 2, told)
		told = 0
		for i := range 50 { // five seconds
			told += a.tell(t, "refused", fmt.Sprint("port ", i))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 4, told)
	})
}

// TestPausesGrowWhileNoBlockComes, and are short again after one.
func TestPausesGrowWhileNoBlockComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		pause := func(brought bool) time.Duration {
			began := time.Now()
			a.pause(t.Context(), 50*time.Millisecond, brought)
			return time.Since(began) / time.Millisecond
		}
		for _, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 2000, 2000} {
			assert.Equal(t, want, pause(false))
		}
		for range 100 {
			a.pause(t.Context(), 50*time.Millisecond, false)
		}
		assert.EqualValues(t, 2000, pause(false))
		assert.EqualValues(t, 50, pause(true))
		assert.EqualValues(t, 50, pause(false))
		assert.EqualValues(t, 100, pause(false))
	})
}

// fillDisk has every later write to a file that this process has open fail as on a full disk.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, full.Close()) }()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := false
	for _, one := range open {
		at, err := os.Readlink(filepath.Join("/proc/self/fd", one.Name()))
		if err != nil || at != path {
			continue
		}
		var fd int
		_, err = fmt.Sscan(one.Name(), &fd)
		require.NoError(t, err)
		require.NoError(t, syscall.Dup3(int(full.Fd()), fd, syscall.O_CLOEXEC))
		found = true
	}
	require.True(t, found, "%s is not open", path)
}

// openFollower makes an orderer that has left the channel's consenters, and has the configuration that says so.
func (c *testCluster) openFollower(i int) *Node {
	c.t.Helper()
	cfg, err := nodeconfig.Load(c.config(i), nodeconfig.RoleOrderer)
	require.NoError(c.t, err)
	part := filepath.Join(cfg.Data, "channels", ch, kinds[channelconfig.Raft].Folder)
	require.NoError(c.t, os.MkdirAll(part, 0o755))
	require.NoError(c.t, markLeft(part))
	node := c.open(i)
	require.Nil(c.t, node.channels[ch].part(), "it follows")
	c.unname(node, i)
	return node
}

// unname has a node take another one, or itself, for none of the consenters.
func (c *testCluster) unname(node *Node, i int) {
	c.t.Helper()
	g := *node.channels[ch].group.Load()
	g.members = maps.Clone(g.members)
	for id, m := range g.members {
		if m.address != c.node(i).Address {
			continue
		}
		delete(g.members, id)
		if id == g.id {
			g.id = 0
		}
	}
	node.channels[ch].group.Store(&g)
}

// behindOnAFullDisk has an orderer's disk be full that is behind, and blocks that do not fit into memory.
func behindOnAFullDisk(t *testing.T, open func(*testCluster, int) *Node) *Node {
	t.Helper()
	c := clusterWith(t, 0)
	c.start(1)
	for range 3 {
		c.orderAt(0, strings.Repeat("x", 100<<10))
	}
	node := open(c, 2)
	fillDisk(t, filepath.Join(node.cfg.Data, "channels", ch, "blocks", "segment-000000.blk"))
	return node
}

// TestAFollowerWhoseDiskIsFullStops: to ask other orderers for the block would not help.
func TestAFollowerWhoseDiskIsFullStops(t *testing.T) {
	node := behindOnAFullDisk(t, (*testCluster).openFollower)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := node.Run(ctx)
	require.NoError(t, ctx.Err(), "it runs on")
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// TestCatchingUpOnAFullDiskEnds with the error, which ends the consenter and so the node.
func TestCatchingUpOnAFullDiskEnds(t *testing.T) {
	node := behindOnAFullDisk(t, (*testCluster).open)
	defer func() { _ = node.close() }() // its disk is full
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := node.channels[ch].CatchUp(ctx, 4)
	require.NoError(t, ctx.Err(), "it goes on")
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// inVain has a channel fetch blocks until it has asked others in so many rounds at least that brought none, and gives all that
// it has said.
func inVain(t *testing.T, ch *channel, rounds int, fetch func(context.Context) error) string {
	t.Helper()
	return opstest.Logged(t, func() {
		cut := 0 // rounds that this test may have ended
		for limit := time.Second; ch.answers.vain-cut < rounds; limit *= 2 {
			require.Less(t, limit, patience)
			ctx, cancel := context.WithCancel(t.Context()) // of a deadline the other end would tell
			ends := time.AfterFunc(limit, cancel)
			_ = fetch(ctx)
			ends.Stop()
			cancel()
			cut++
		}
	})
}

var noBlocks = regexp.MustCompile("no blocks from other orderers.*")

// TestOneThatGetsNoBlocksSaysWhy, and says it once in sayAgain: a follower, and a consenter that catches up.
func TestOneThatGetsNoBlocksSaysWhy(t *testing.T) {
	c := newCluster(t, func(*setup.Options) {}) // nobody else runs
	node := c.openFollower(2)
	defer func() { require.NoError(t, node.close()) }()
	for what, fetch := range map[string]func(context.Context) error{
		"follow":  node.channels[ch].follow,
		"CatchUp": func(ctx context.Context) error { return node.channels[ch].CatchUp(ctx, 7) },
	} {
		t.Run(what, func(t *testing.T) {
			node.channels[ch].answers = answers{}
			began := time.Now()
			text := inVain(t, node.channels[ch], 3, fetch)
			said := map[string]int{}
			for _, words := range noBlocks.FindAllString(text, -1) {
				said[words]++ // another reason is another problem
			}
			assert.NotEmpty(t, said, text)
			for _, often := range said {
				assert.LessOrEqual(t, often, 1+int(time.Since(began)/sayAgain), text)
			}
			for i := range 2 {
				assert.Contains(t, text, c.node(i).Address+": ")
			}
			assert.Contains(t, text, "connection refused")
		})
	}
}

// TestAFollowerThatHasAllBlocksSaysNothing, though another orderer of the channel is down.
func TestAFollowerThatHasAllBlocksSaysNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := clusterWith(t, 2) // the second has ended
	node := c.openFollower(2)
	defer func() { require.NoError(t, node.close()) }()
	behind := node.channels[ch]
	require.NoError(t, behind.CatchUp(t.Context(), 3))
	behind.answers = answers{}
	// Each round asks the one that runs for what comes, and for its newest block.
	opened := regexp.MustCompile(`(?m)^deliver_streams_opened (\d+)$`)
	requests := func() (n int) {
		page, err := pageOf(c.node(0).Operations)
		assert.NoError(t, err)
		for _, found := range opened.FindAllStringSubmatch(page, 1) {
			n, err = strconv.Atoi(found[1])
			assert.NoError(t, err)
		}
		return n
	}
	const rounds = 2
	before := requests()
	require.Positive(t, before, "it has fetched blocks there")
	said := followedUntil(t, node, func(string) bool { return requests() > before+2*rounds })
	assert.NotContains(t, said, "no blocks from other orderers")
}

// followedUntil is what an orderer says that follows until then, by what it has said so far.
func followedUntil(t *testing.T, node *Node, then func(said string) bool) string {
	t.Helper()
	return opstest.Watched(t, func(soFar func() string) {
		ctx, cancel := context.WithCancel(t.Context()) // of a deadline the other end would tell
		var following sync.WaitGroup
		following.Go(func() { assert.NoError(t, node.channels[ch].follow(ctx)) })
		defer following.Wait()
		defer cancel()
		require.Eventually(t, func() bool { return then(soFar()) }, patience, 10*time.Millisecond)
	})
}

// says is of one that has said a text.
func says(text string) func(string) bool {
	return func(said string) bool { return strings.Contains(said, text) }
}

// followerOfOne starts the first orderer and opens the second, which follows it; the third does not run.
func followerOfOne(t *testing.T) (*testCluster, *Node) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newCluster(t, func(*setup.Options) {})
	c.start(1)
	node := c.openFollower(2)
	t.Cleanup(func() { require.NoError(t, node.close()) })
	return c, node
}

// TestAFollowerThatHearsOnlyAnotherOneSaysSo: the other one is cut off from the consenters as well.
func TestAFollowerThatHearsOnlyAnotherOneSaysSo(t *testing.T) {
	c, node := followerOfOne(t)
	c.unname(node, 1)
	text := followedUntil(t, node, says(c.node(1).Address+": it has sent nothing for 3s"))
	assert.Contains(t, text, "no blocks from other orderers")
}

// TestAFollowerThatKnowsOfAnEarlierConfigurationAloneSaysSo: there is a block that has removed it, and it lacks that one.
func TestAFollowerThatKnowsOfAnEarlierConfigurationAloneSaysSo(t *testing.T) {
	c, node := followerOfOne(t)
	node.channels[ch].regroup()
	followedUntil(t, node, says(c.node(1).Address+": it has sent nothing for 3s"))
}

// oneByOne sends one more block each time that it is asked.
type oneByOne struct {
	ordererpb.UnimplementedAtomicBroadcastServer
	blocks []*commonpb.Block
	asked  atomic.Int64
}

func (s *oneByOne) Deliver(stream ordererpb.AtomicBroadcast_DeliverServer) error {
	if _, err := stream.Recv(); err != nil { // one that ends before would have the request fail
		return err
	}
	next := s.blocks[s.asked.Add(1)-1]
	return stream.Send(&ordererpb.DeliverResponse{Type: &ordererpb.DeliverResponse_Block{Block: next}})
}

// TestOneThatGetsBlocksSaysNothing of an orderer that is down, while it catches up from another one.
func TestOneThatGetsBlocksSaysNothing(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount = "block", 1 })
	ends := []func(){c.start(0), c.start(1)}
	for i := range 2 {
		c.orderAt(0, fmt.Sprint("tx", i))
	}
	blocks, err := c.blocks(0, ch, 1, 2)
	require.NoError(t, err)
	for _, end := range ends {
		end()
	}
	c.impersonate(1, &oneByOne{blocks: blocks})
	node := c.open(2)
	defer func() { require.NoError(t, node.close()) }()
	text := opstest.Logged(t, func() { require.NoError(t, node.channels[ch].CatchUp(t.Context(), 3)) })
	assert.NotContains(t, text, "no blocks from other orderers")
}
