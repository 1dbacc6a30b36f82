package orderer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

func bftOf(orderers int) func(*setup.Options) { return agreeingBy("bft", orderers) }

// agreeingBy is how orderers agree of which some may lie.
func agreeingBy(consenter string, orderers int) func(*setup.Options) {
	return func(o *setup.Options) {
		o.Consenter, o.Orderers = consenter, orderers
		o.Mode, o.MaxMessageCount, o.BatchTimeout = "block", 4, 200*time.Millisecond
		o.VirtualBlockTxs, o.VirtualBlockInterval = 4, 200*time.Millisecond
	}
}

// TestReplicasSealTheSameBlocks: whichever orderer a client asks, and each block carries the signatures of a quorum.
func TestReplicasSealTheSameBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, mode := range []string{"block", "stream"} {
		for _, group := range []struct {
			consenter string
			orderers  int
		}{{"bft", 4}, {"bft", 5}, {"zyzzyva", 4}} {
			orderers := group.orderers
			t.Run(fmt.Sprintf("%s of %d by %s", mode, orderers, group.consenter), func(t *testing.T) {
				c := newCluster(t, func(o *setup.Options) { agreeingBy(group.consenter, orderers)(o); o.Mode = mode })
				for i := range orderers {
					c.start(i)
				}
				var want []string
				for i := range 12 {
					text := fmt.Sprintf("tx%d", i)
					c.orderAt(i%orderers, text)
					want = append(want, text)
				}
				_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
				require.NoError(t, err)
				var first []*commonpb.Block
				for i := range orderers {
					assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
					blocks, err := c.blocks(i, ch, 0, 3)
					require.NoError(t, err)
					require.Len(t, blocks, 4)
					for _, b := range blocks[1:] {
						require.NoError(t, bundle.VerifySeal(b.Header, b.Metadata))
						signatures, err := protoutil.BlockSignatures(b.Metadata)
						require.NoError(t, err)
						require.Len(t, signatures, map[int]int{4: 3, 5: 4}[orderers])
					}
					if first == nil {
						first = blocks
					}
					for n := range blocks {
						assert.True(t, proto.Equal(first[n].Header, blocks[n].Header), "block %d", n)
					}
				}
			})
		}
	}
}

// TestRunningHashesAreTheSameEverywhere, ahead of any seal, and are those of what the orderers send.
func TestRunningHashesAreTheSameEverywhere(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) {
		bftOf(4)(o)
		o.Mode, o.VirtualBlockTxs, o.VirtualBlockInterval = "stream", 100, time.Hour
	})
	for i := range 4 {
		c.start(i)
	}
	const txs = 5
	for i := range txs {
		c.orderAt(i%4, fmt.Sprint("tx", i))
	}
	genesis, _, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hash := protoutil.BlockHeaderHash(genesis.Header)
	var words []*streampb.Word // of the one that is followed, by transactions
	follow := c.follow(ctx, 0, ch, &streampb.Position{Block: 1})
	for n := 0; n < txs; {
		batch, err := follow.Recv()
		require.NoError(t, err)
		for _, item := range batch.Items {
			hash = protoutil.RunningHash(hash, item.GetTx())
			n++
		}
		words = append(words, &streampb.Word{Block: 1, Tx: uint64(n), Hash: hash})
		assert.True(t, proto.Equal(words[len(words)-1], batch.Word), "%v", batch.Word)
	}
	for i := range 4 {
		heard := c.follow(ctx, i, ch, &streampb.Position{Words: true})
		var last *streampb.Word
		for last.GetTx() < txs {
			batch, err := heard.Recv()
			require.NoError(t, err)
			assert.Empty(t, batch.Items)
			last = batch.Word
		}
		assert.True(t, proto.Equal(words[len(words)-1], last), "orderer %d: %v", i, last)
	}
}

// TestNoRunningHashesWhereNobodyLies.
func TestNoRunningHashesWhereNobodyLies(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { o.Consenter, o.Orderers, o.Mode = "solo", 1, "stream" })
	c.start(0)
	c.orderAt(0, "tx")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	batch, err := c.follow(ctx, 0, ch, &streampb.Position{Block: 1}).Recv()
	require.NoError(t, err)
	assert.Nil(t, batch.Word)
	_, err = c.follow(ctx, 0, ch, &streampb.Position{Words: true}).Recv()
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
}

// TestABlockNeedsAQuorum of consenters, each by itself.
func TestABlockNeedsAQuorum(t *testing.T) {
	c := newCluster(t, bftOf(4))
	for i := range 4 {
		c.start(i)
	}
	c.orderAt(0, "tx")
	blocks, err := c.blocks(0, ch, 1, 1)
	require.NoError(t, err)
	_, bundle, err := nodeconfig.Channel{Name: ch, Genesis: c.dir + "/channels/" + ch + ".block"}.GenesisBlock()
	require.NoError(t, err)
	b := blocks[0]
	lastConfig, consenter, err := protoutil.OrdererMetadata(b.Metadata)
	require.NoError(t, err)
	signatures, err := protoutil.BlockSignatures(b.Metadata)
	require.NoError(t, err)
	verify := func(signatures ...*commonpb.MetadataSignature) error {
		metadata, err := protoutil.SignedBlock(lastConfig, consenter, signatures)
		require.NoError(t, err)
		return bundle.VerifySeal(b.Header, metadata)
	}
	require.NoError(t, verify(signatures...))
	require.ErrorIs(t, verify(signatures[:2]...), protoutil.ErrBlockSignature)
	require.ErrorIs(t, verify(signatures[0], signatures[1], signatures[1]), protoutil.ErrBlockSignature)
	renamed := proto.Clone(signatures[2]).(*commonpb.MetadataSignature)
	renamed.IdentifierHeader, err = proto.Marshal(&commonpb.IdentifierHeader{Identifier: 99})
	require.NoError(t, err)
	require.ErrorIs(t, verify(signatures[0], signatures[1], renamed), protoutil.ErrBlockSignature)
}

// TestReplicasGoOnWithoutTheirLeader: killed, or frozen. None of what clients were told is lost, and the one that was
// away has the same blocks in the end.
func TestReplicasGoOnWithoutTheirLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			goOnWithoutLeader(t, consenter)
		})
	}
}

// TestAReplicaThatHearsNobodySaysSo, and what the others have answered.
func TestAReplicaThatHearsNobodySaysSo(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, agreeingBy(consenter, 4))
			c.spawn(3)
			require.Eventually(t, func() bool {
				said, err := os.ReadFile(filepath.Join(c.dir, c.node(3).Log))
				return err == nil && strings.Contains(string(said), "no leader is heard for more than 6s") &&
					strings.Contains(string(said), c.node(0).Address+": ")
			}, patience, 100*time.Millisecond)
		})
	}
}

// TestWhatWaitsOutlivesTheLeader: a client need not send it again. One that does is answered too.
func TestWhatWaitsOutlivesTheLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, agreeingBy(consenter, 4))
			var end [4]func(os.Signal)
			for i := range 4 {
				end[i] = c.spawn(i)
			}
			for i := range 4 {
				c.orderAt(i, fmt.Sprint("before ", i))
			}
			end[0](syscall.SIGKILL)
			var clients sync.WaitGroup
			for i := 1; i < 4; i++ {
				env := c.message(ch, fmt.Sprint("after ", i))
				for range 2 {
					clients.Go(func() {
						r, err := c.ask(i, env)
						if assert.NoError(t, err) && r.Status != commonpb.Status_SUCCESS {
							assert.Equal(t, errTimeout.Error(), r.Info, "a busy host may give up several views")
						}
					})
				}
			}
			clients.Wait()
			for i := 1; i < 4; i++ {
				c.seesAll(i, []string{"after 1", "after 2", "after 3"})
			}
		})
	}
}

func goOnWithoutLeader(t *testing.T, consenter string) {
	c := newCluster(t, agreeingBy(consenter, 4))
	var end [4]func(os.Signal)
	var pids [4]int
	for i := range 4 {
		end[i], pids[i] = c.spawnProcess(i, nil)
	}
	var told []string
	order := func(i int, text string) {
		c.orderAt(i, text)
		told = append(told, text)
	}
	order(1, "before")

	killed := c.leads()
	end[killed](syscall.SIGKILL)
	since := time.Now()
	order(but(killed)[0], "after a kill")
	t.Logf("back after %s", time.Since(since))
	for i := range 20 {
		order(but(killed)[i%3], fmt.Sprintf("without it %d", i))
	}
	end[killed], pids[killed] = c.spawnProcess(killed, nil)
	order(killed, "it is back")

	frozen := c.leads()
	require.NoError(t, syscall.Kill(pids[frozen], syscall.SIGSTOP))
	since = time.Now()
	order(but(frozen)[0], "frozen")
	t.Logf("back after %s", time.Since(since))
	for i := range 20 {
		order(but(frozen)[i%3], fmt.Sprintf("frozen %d", i))
	}
	require.NoError(t, syscall.Kill(pids[frozen], syscall.SIGCONT))
	order(frozen, "thawed")

	c.endAlike([]int{0, 1, 2, 3}, told, end)
}

// stands is a gauge of where a replica is.
var stands = regexp.MustCompile(`(?m)^consensus_BFT_(active|view)\{.*\} (\d+)$`)

// leads is the orderer that leads the view that all four are in.
func (c *testCluster) leads() int {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if view, common := c.commonView(); common {
			return view % 4
		}
	}
	c.t.Fatal("the orderers are in no common view")
	return 0
}

func (c *testCluster) commonView() (view int, common bool) {
	views := map[string]bool{}
	for i := range 4 {
		page, err := pageOf(c.node(i).Operations)
		if err != nil {
			return 0, false
		}
		gauges := map[string]string{}
		for _, found := range stands.FindAllStringSubmatch(page, -1) {
			gauges[found[1]] = found[2]
		}
		if gauges["active"] != "1" {
			return 0, false
		}
		views[gauges["view"]] = true
	}
	for one := range views {
		var err error
		view, err = strconv.Atoi(one)
		common = err == nil && len(views) == 1
	}
	return view, common
}

// but is all four orderers without one, beginning with the one after it.
func but(i int) []int { return []int{(i + 1) % 4, (i + 2) % 4, (i + 3) % 4} }

// TestAnOrdererWhoseVotesAreGoneDoesNotStart: it would vote again where others have counted its votes.
func TestAnOrdererWhoseVotesAreGoneDoesNotStart(t *testing.T) {
	c := newCluster(t, agreeingBy("bft", 4))
	var stop func()
	for i := range 4 {
		stop = c.start(i)
	}
	c.orderAt(3, "a vote")
	c.sealed(3, []string{"a vote"}) // its file has the block once it has stopped
	stop()
	cfg, err := nodeconfig.Load(c.config(3), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(c.dir, c.node(3).Data, "channels", ch, "bft", "votes")))
	_, err = Open(cfg)
	require.ErrorContains(t, err, "votes that are forgotten could be cast again")
}

// TestVolatileVotesOutliveTheProcess by either protocol, and the log says that they are volatile: all orderers are killed at
// once, and go on.
func TestVolatileVotesOutliveTheProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, func(o *setup.Options) { agreeingBy(consenter, 4)(o); o.VolatileVotes = true })
			var want []string
			for round := range 2 {
				var end []func(os.Signal)
				for i := range 4 {
					end = append(end, c.spawn(i))
				}
				for i := range 4 {
					want = append(want, fmt.Sprintf("tx%d of %d", i, round))
					c.orderAt(i, want[len(want)-1])
				}
				for i := range 4 {
					assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 1}, len(want)))
				}
				for _, kill := range end {
					kill(syscall.SIGKILL)
				}
			}
			assert.Contains(t, string(c.read(c.node(0).Log)), "VOTES ARE NOT DURABLE")
		})
	}
}
