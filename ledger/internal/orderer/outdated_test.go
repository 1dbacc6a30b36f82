package orderer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// TestOfCompetingConfigurationsOneCounts, also where orderers may lie: the clients of the others are told so before their
// patience ends, and the orderers go on.
func TestOfCompetingConfigurationsOneCounts(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			for trial := 1; compete(t, consenter); trial++ {
				require.Less(t, trial, 5, "whenever it is tried, some client is not told")
			}
		})
	}
}

// compete says whether an orderer's patience with a client ended: where the host stood still for so long, that says nothing.
func compete(t *testing.T, consenter string) (late bool) {
	c := newCluster(t, agreeingBy(consenter, 4))
	for i := range 4 {
		defer c.start(i)()
	}
	c.orderAt(0, "before")
	var updates sync.WaitGroup
	answers := make([]*ordererpb.BroadcastResponse, 12)
	for i := range answers {
		update := c.update(chaincode(fmt.Sprintf("%d.0", i+2)), org1Admin)
		updates.Go(func() {
			var err error
			answers[i], err = c.ask(i%4, update)
			assert.NoError(t, err)
		})
	}
	updates.Wait()
	won := 0
	for _, answer := range answers {
		require.NotNil(t, answer)
		late = late || strings.Contains(answer.Info, errTimeout.Error())
		if answer.Status == commonpb.Status_SUCCESS {
			won++
		}
	}
	require.LessOrEqual(t, won, 1, "%v", answers)
	assert.True(t, late || won == 1, "%v", answers)
	for i := range 4 {
		c.orderAt(i, fmt.Sprint("after ", i))
	}
	return late
}

// TestWhatOthersProposeIsJudgedWithoutTheClock, so that correct orderers answer alike whenever they are asked.
func TestWhatOthersProposeIsJudgedWithoutTheClock(t *testing.T) {
	c := newCluster(t, bftOf(4))
	node := c.open(0)
	defer func() { require.NoError(t, node.close()) }()
	var host consensus.Host = node.channels[ch]
	home := "crypto/" + org1Admin + "/ca/"
	authority, err := ca.Load(c.read(home+"ca.org1.example.com-cert.pem"), c.read(home+"priv_sk"))
	require.NoError(t, err)
	cert, key, err := authority.Issue(ca.Request{
		CommonName: "User1", Unit: "client", NotBefore: time.Now().Add(-2 * time.Minute), NotAfter: time.Now().Add(-time.Minute),
	})
	require.NoError(t, err)
	c.client, err = identity.NewSigner("Org1MSP", cert, key)
	require.NoError(t, err)
	env := c.message(ch, "x")
	raw, err := proto.Marshal(env)
	require.NoError(t, err)
	require.NoError(t, host.Check(raw))
	w := node.accept(env)
	require.ErrorIs(t, w.wait(context.Background()), errForbidden, "at its own door an orderer looks at the clock")
}

// TestALogOfOthersIsCheckedAgain where a configuration came into force while transactions were on their way: all orderers
// leave out alike what it does not allow, also when they are restarted.
func TestALogOfOthersIsCheckedAgain(t *testing.T) {
	for by, begin := range map[string]func(*testing.T, func(*setup.Options)) *testCluster{
		"kafka": func(t *testing.T, change func(*setup.Options)) *testCluster {
			c, _ := newKafkaCluster(t, change)
			return c
		},
		"sequencer": func(t *testing.T, change func(*setup.Options)) *testCluster {
			c, at := newSequencerCluster(t, change)
			c.spawnSequencer(at)
			return c
		},
	} {
		t.Run(by, func(t *testing.T) {
			c := begin(t, func(o *setup.Options) {
				o.Orderers, o.AbsoluteMaxBytes, o.PreferredMaxBytes, o.VirtualBlockTxs, o.VirtualBlockInterval = 2, 2<<20, 1<<20, 3, time.Hour
			})
			node, stop := c.startNode(0)
			_, stopOther := c.startNode(1)
			c.order(c.updateTo(largest(1<<20), ordererAdmins))
			require.Eventually(t, func() bool { return node.channels[ch].Bundle().Sequence == 1 }, patience, time.Millisecond)
			checkedBefore := func(text string) {
				raw, err := proto.Marshal(c.message(ch, text))
				require.NoError(t, err)
				written := make(chan error, 1)
				require.NoError(t, node.channels[ch].propose(raw, 0, func(err error) { written <- err }))
				require.NoError(t, <-written)
			}
			large := strings.Repeat("x", 3<<19)
			for i := range 4 {
				checkedBefore(large)
				checkedBefore(fmt.Sprint(i))
			}
			c.orderAt(0, "5")
			c.orderAt(1, "6")
			want := []string{"0", "1", "2", "3", "5", "6"} // blocks 2 and 3
			for i := range 2 {
				assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 2}, len(want)), "orderer %d", i)
			}
			// The one that comes into force next allows it, and is not asked, also where it is in the last block of a restart.
			checkedBefore(large)
			c.order(c.updateFrom(node.channels[ch].Bundle().Config, largest(2<<20), ordererAdmins))
			require.Eventually(t, func() bool { return node.channels[ch].Bundle().Sequence == 2 }, patience, time.Millisecond)
			stop()
			node, _ = c.startNode(0)
			c.orderAt(0, "7")
			checkedBefore(large) // where neither forbids it
			want = []string{"7", large}
			for i := range 2 {
				assert.Equal(t, want, c.texts(i, ch, &streampb.Position{Block: 5}, len(want)), "orderer %d", i)
			}
			stopOther()
			hashes, _ := c.chainOnDisk(0, ch)
			others, _ := c.chainOnDisk(1, ch)
			assert.Equal(t, hashes[:5], others[:5])
		})
	}
}

func (c *testCluster) read(file string) []byte {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, file))
	require.NoError(c.t, err)
	return raw
}
