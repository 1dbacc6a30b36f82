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
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
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

func (c *testCluster) read(file string) []byte {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, file))
	require.NoError(c.t, err)
	return raw
}
