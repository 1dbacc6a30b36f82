package orderer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
)

// TestOfCompetingConfigurationsOneCounts, also where orderers may lie: the clients of the others are told so before their
// patience ends, and the orderers go on.
func TestOfCompetingConfigurationsOneCounts(t *testing.T) {
	for _, consenter := range []string{"bft", "zyzzyva"} {
		t.Run(consenter, func(t *testing.T) {
			c := newCluster(t, agreeingBy(consenter, 4))
			for i := range 4 {
				c.start(i)
			}
			c.orderAt(0, "before")
			var updates sync.WaitGroup
			statuses := make([]commonpb.Status, 12)
			for i := range statuses {
				update := c.update(chaincode(fmt.Sprintf("%d.0", i+2)), org1Admin)
				updates.Go(func() {
					r, err := c.broadcast(context.Background(), i%4, update)
					if assert.NoError(t, err) {
						statuses[i] = r.Status
						assert.NotContains(t, r.Info, errTimeout.Error())
					}
				})
			}
			updates.Wait()
			won := 0
			for _, status := range statuses {
				if status == commonpb.Status_SUCCESS {
					won++
				}
			}
			assert.Equal(t, 1, won, "%v", statuses)
			for i := range 4 {
				c.orderAt(i, fmt.Sprint("after ", i))
			}
		})
	}
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
