package orderer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/kafka"
	external "github.com/qioi/qioi/ledger/internal/orderer/consensus/sequencer"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// aBlockEach has a block for each transaction.
func aBlockEach(o *setup.Options) {
	o.Orderers, o.Mode, o.MaxMessageCount, o.BatchTimeout = 1, "block", 1, time.Hour
}

// externalLogs are the ways to order by a log that others keep, with one orderer each.
var externalLogs = map[string]func(t *testing.T) *testCluster{
	"kafka": func(t *testing.T) *testCluster {
		c, _ := newKafkaCluster(t, aBlockEach)
		return c
	},
	"sequencer": func(t *testing.T) *testCluster {
		c, at := newSequencerCluster(t, aBlockEach)
		c.spawnSequencer(at)
		return c
	},
}

// orderSix starts the first orderer, has it order six transactions, and ends it.
func (c *testCluster) orderSix() {
	stop := c.start(0)
	for i := range 6 {
		c.orderAt(0, fmt.Sprint("transaction ", i))
	}
	c.texts(0, ch, &streampb.Position{Block: 1}, 6)
	stop()
}

// TestDamagedBlocksComeFromALogThatOthersKeep: the orderer takes them from there again, and they are the same blocks.
func TestDamagedBlocksComeFromALogThatOthersKeep(t *testing.T) {
	for by, begin := range externalLogs {
		t.Run(by, func(t *testing.T) {
			c := begin(t)
			c.orderSix()
			hashes, texts := c.chainOnDisk(0, ch)
			c.damage(0, "transaction 3")
			var stop func()
			said := opstest.Logged(t, func() { stop = c.start(0) })
			assert.Contains(t, said, "segment-000000.blk.damaged is a copy. 4 blocks are left")
			c.orderAt(0, "after")
			c.texts(0, ch, &streampb.Position{Block: 1}, 7)
			stop()
			again, all := c.chainOnDisk(0, ch)
			assert.Equal(t, hashes, again[:len(hashes)])
			assert.Equal(t, append(texts, "after"), all)
			assert.NoFileExists(t, filepath.Join(c.dir, c.node(0).Data, "channels", ch, "blocks", "lost"))
		})
	}
}

// TestAnotherTopicMendsNoBlocks, now or after a restart: followers have had those that are gone.
func TestAnotherTopicMendsNoBlocks(t *testing.T) {
	for what, texts := range map[string][]string{
		"it has fewer": {"other 0"},
		"it has other": {"transaction 0", "transaction 1", "transaction 2", "other 3", "other 4", "other 5", "other 6", "other 7"},
	} {
		t.Run(what, func(t *testing.T) {
			c, brokers := newKafkaCluster(t, aBlockEach)
			c.orderSix()
			c.damage(0, "transaction 1")
			brokers.Close()
			newBrokers(t, c)
			blocks := filepath.Join(c.dir, c.node(0).Data, "channels", ch, "blocks")
			aside := blocks + "-aside"
			require.NoError(t, os.Rename(blocks, aside))
			stop := c.start(0) // as another orderer, which makes the topic another one
			for _, text := range texts {
				c.orderAt(0, text)
			}
			stop()
			require.NoError(t, os.RemoveAll(blocks))
			require.NoError(t, os.Rename(aside, blocks))
			for range 2 {
				err := c.open(0).Run(t.Context())
				require.Error(t, err)
				assert.True(t, errors.Is(err, kafka.ErrLost) || errors.Is(err, chain.ErrOtherLog), "%s", err)
			}
			assert.FileExists(t, filepath.Join(blocks, "lost"))
		})
	}
}

// TestATopicWithoutTheOpenBlockIsNotServed: followers have had its transactions, and no block says so. They are on disk, or
// damage has taken them away.
func TestATopicWithoutTheOpenBlockIsNotServed(t *testing.T) {
	for what, damaged := range map[string]bool{"damaged": true, "on disk": false} {
		t.Run(what, func(t *testing.T) {
			c, brokers := newKafkaCluster(t, func(o *setup.Options) { aBlockEach(o); o.Mode, o.MaxMessageCount = "stream", 100 })
			c.orderSix()
			if damaged {
				c.damage(0, "transaction 1")
			}
			brokers.Close()
			newBrokers(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.ErrorIs(t, c.open(0).Run(ctx), kafka.ErrLost)
		})
	}
}

// TestDamagedBlocksComeFromOtherReplicas, which go on meanwhile.
func TestDamagedBlocksComeFromOtherReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const damaged = 3
	for _, by := range []string{"bft", "zyzzyva"} {
		for what, of := range map[string]struct {
			config    bool // one is lost, too
			meanwhile int  // transactions
			deleted   bool // all blocks, by an operator who keeps the votes
		}{
			"at once":              {},
			"after a checkpoint":   {meanwhile: 140},
			"with a configuration": {config: true, meanwhile: 5},
			"all of them":          {deleted: true},
			"all, late":            {deleted: true, meanwhile: 140},
		} {
			t.Run(by+" "+what, func(t *testing.T) {
				c := newCluster(t, func(o *setup.Options) { agreeingBy(by, 4)(o); o.MaxMessageCount = 1 })
				stops := make([]func(), 4)
				for i := range stops {
					stops[i] = c.start(i)
				}
				n := 0
				order := func(count int) {
					for range count {
						c.orderAt(n%3, fmt.Sprintf("transaction %04d.", n))
						n++
					}
				}
				order(10)
				if of.config {
					c.order(c.update(channelconfig.Patch{MaxMessageCount: 2}, ordererAdmins))
				}
				order(4)
				c.untilAt(damaged, "transaction 0013.")
				stops[damaged]()
				before, _ := c.chainOnDisk(damaged, ch)
				if of.deleted {
					require.NoError(t, os.RemoveAll(filepath.Join(c.dir, c.node(damaged).Data, "channels", ch, "blocks")))
				} else {
					c.damage(damaged, "transaction 0003.")
				}
				order(of.meanwhile)
				stops[damaged] = c.start(damaged)
				order(3)
				c.orderAt(damaged, "after")
				c.untilAt(damaged, "after")
				for _, stop := range stops {
					stop()
				}
				after, texts := c.chainOnDisk(damaged, ch)
				assert.Equal(t, before, after[:len(before)])
				assert.NoFileExists(t, filepath.Join(c.dir, c.node(damaged).Data, "channels", ch, "blocks", "lost"))
				all := strings.Join(texts, " ")
				for i := range n {
					assert.Equal(t, 1, strings.Count(all, fmt.Sprintf("transaction %04d.", i)))
				}
			})
		}
	}
}

// TestAReplicaThatIsGivenOtherBlocksThanItHadEnds with an error: followers may have had them.
func TestAReplicaThatIsGivenOtherBlocksThanItHadEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const damaged = 3
	const meanwhile = 140 // a checkpoint: the blocks are fetched
	for _, by := range []string{"bft", "zyzzyva"} {
		t.Run(by, func(t *testing.T) {
			c := newCluster(t, func(o *setup.Options) { agreeingBy(by, 4)(o); o.MaxMessageCount = 1 })
			var stop func()
			for i := range 4 {
				stop = c.start(i)
			}
			order := func(count int) {
				for i := range count {
					c.orderAt(i%3, fmt.Sprintf("transaction %04d.", i))
				}
			}
			order(5)
			c.orderAt(0, "last")
			c.untilAt(damaged, "last")
			stop()
			c.damage(damaged, "transaction 0003.")
			order(meanwhile)
			ended, end := context.WithCancel(t.Context())
			end()
			require.NoError(t, c.open(damaged).Run(ended)) // what is lost is noted
			file := filepath.Join(c.dir, c.node(damaged).Data, "channels", ch, "blocks", "lost")
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var lost map[string]any
			require.NoError(t, json.Unmarshal(raw, &lost))
			hashes, _ := lost["Hashes"].(map[string]any)
			require.Contains(t, hashes, "5")
			hashes["5"] = []byte("another")
			raw, err = json.Marshal(lost)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, raw, 0o600))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.ErrorIs(t, c.open(damaged).Run(ctx), chain.ErrOtherLog)
			assert.FileExists(t, file)
		})
	}
}

// untilAt waits until an orderer has a transaction.
func (c *testCluster) untilAt(i int, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream := c.follow(ctx, i, ch, &streampb.Position{Block: 1})
	for {
		batch, err := stream.Recv()
		require.NoError(c.t, err)
		for _, item := range batch.Items {
			if bytes.Contains(item.GetTx(), []byte(text)) {
				return
			}
		}
	}
}

// TestDamageWithoutVotesIsRefused: a replica without its votes could vote again otherwise.
func TestDamageWithoutVotesIsRefused(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) { bftOf(4)(o); o.MaxMessageCount = 1 })
	var stops []func()
	for i := range 4 {
		stops = append(stops, c.start(i))
	}
	for i := range 3 {
		c.orderAt(0, fmt.Sprint("transaction ", i))
	}
	for _, stop := range stops {
		stop()
	}
	c.damage(0, "transaction 0")
	cfg, err := nodeconfig.Load(c.config(0), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	folder := filepath.Join(cfg.Data, "channels", ch)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "bft")))
	segment := filepath.Join(folder, "blocks", "segment-000000.blk")
	before, err := os.ReadFile(segment)
	require.NoError(t, err)
	_, err = Open(cfg)
	var corrupt *blockfile.CorruptError
	require.ErrorAs(t, err, &corrupt)
	after, err := os.ReadFile(segment)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// TestDamageThatNobodyMendsIsRefused: one that is alone has nobody to ask, and the first block comes from no log.
func TestDamageThatNobodyMendsIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bft"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bft", "votes"), nil, 0o600))
	lost := blockfile.Lost{Block: 1}
	require.NoError(t, mends(&replica.PBFT, dir, founders{4, 1}, lost))
	require.ErrorContains(t, mends(&replica.PBFT, dir, founders{1, 1}, lost), "no other orderer")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bft-7"), 0o755))
	require.NoError(t, mends(&replica.PBFT, dir, founders{4, 1}, lost), "it has crashed as it became a consenter again")
	require.NoError(t, os.Remove(filepath.Join(dir, "bft", "votes")))
	require.ErrorContains(t, mends(&replica.PBFT, dir, founders{4, 1}, lost), "no votes")
	require.NoError(t, mends(&external.Kind, dir, founders{1, 1}, lost))
	require.ErrorContains(t, mends(&external.Kind, dir, founders{1, 1}, blockfile.Lost{}), "first block")
}

// TestDamagedBlocksOfAFollowerComeFromTheConsenters, of whom it never was one.
func TestDamagedBlocksOfAFollowerComeFromTheConsenters(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, consenter := range []string{"bft", "raft"} {
		t.Run(consenter, func(t *testing.T) { followerIsMended(t, consenter) })
	}
}

func followerIsMended(t *testing.T, consenter string) {
	const follows = 3
	c := newCluster(t, func(o *setup.Options) { agreeingBy(consenter, 4)(o); o.MaxMessageCount = 1 })
	for i := range follows {
		c.start(i)
	}
	cfg, err := nodeconfig.Load(c.config(follows), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	peer, err := nodeconfig.Load(c.config(4), nodeconfig.RolePeer)
	require.NoError(t, err)
	cfg.Address, cfg.TLS.KeyPair = "nowhere:1", peer.TLS.KeyPair // of none that the channel names
	height := func(at uint64) {
		node, err := Open(cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- node.Run(ctx) }()
		assert.Eventually(t, func() bool { return node.channels[ch].Height() >= at }, patience, 10*time.Millisecond)
		cancel()
		require.NoError(t, <-done)
	}
	for i := range 4 {
		c.orderAt(0, fmt.Sprint("transaction ", i))
	}
	height(5)
	before, _ := c.chainOnDisk(follows, ch)
	c.damage(follows, "transaction 1")
	c.orderAt(0, "after")
	height(6)
	after, texts := c.chainOnDisk(follows, ch)
	assert.Equal(t, before, after[:len(before)])
	assert.Contains(t, texts, "after")
}
