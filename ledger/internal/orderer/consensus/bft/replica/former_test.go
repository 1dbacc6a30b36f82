package replica

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/setup"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// configuration is one of four consenters, with their keys.
type configuration struct {
	block   *commonpb.Block
	bundle  *channelconfig.Bundle
	signers []*identity.SigningIdentity
}

func configured(t *testing.T) (c configuration) {
	o := setup.Defaults()
	o.Dir = filepath.Join(t.TempDir(), "net")
	o.Orgs, o.PeersPerOrg, o.Chaincodes, o.Orderers, o.Consenter = 1, 1, nil, 4, "bft"
	file, err := setup.Init(o)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(o.Dir, "channels", "mychannel.block"))
	require.NoError(t, err)
	c.block = &commonpb.Block{}
	require.NoError(t, proto.Unmarshal(raw, c.block))
	c.bundle, err = channelconfig.FromBlock(c.block)
	require.NoError(t, err)
	for _, node := range file.Nodes {
		if node.Role != nodeconfig.RoleOrderer {
			continue
		}
		cfg, err := nodeconfig.Load(filepath.Join(o.Dir, node.Config), nodeconfig.RoleOrderer)
		require.NoError(t, err)
		signer, err := cfg.Signer()
		require.NoError(t, err)
		c.signers = append(c.signers, signer)
	}
	require.Len(t, c.signers, 4)
	return c
}

// changed is a ledger whose consenters 2 to 5 took the place of 1 to 4 by block 1.
type changed struct{ sealed }

func (*changed) Members() []uint64      { return []uint64{2, 3, 4, 5} }
func (*changed) Applied() chain.Applied { return chain.Applied{Index: 7, Txs: 1} }

func changedBy(t *testing.T, before, now configuration) (*changed, consensus.Settings) {
	members := channelconfig.Membership{IDs: []uint64{2, 3, 4, 5}, Next: 6}
	metadata, err := chain.RaftLog.Marshal(chain.Applied{Index: 7, Txs: 1}, members)
	require.NoError(t, err)
	host := &changed{sealed{blocks: []*commonpb.Block{before.block}}}
	for number := range uint64(2) {
		block := &commonpb.Block{Header: &commonpb.BlockHeader{Number: number + 1}, Data: now.block.Data}
		block.Metadata, err = protoutil.SignBlock(now.signers[0], block.Header, 1, metadata)
		require.NoError(t, err)
		host.blocks = append(host.blocks, block)
	}
	settings := consensus.Settings{ID: 5, Founders: 4, Dir: "bft-5", Bundle: func() *channelconfig.Bundle { return now.bundle }}
	return host, settings
}

// TestWhoOrderedBeforeIsKnownAfterARestart: one that was killed before the end of their epoch was stable learns of it by a
// certificate that a member which has left may have signed.
func TestWhoOrderedBeforeIsKnownAfterARestart(t *testing.T) {
	before, now := configured(t), configured(t)
	host, settings := changedBy(t, before, now)
	signed := func(by *identity.SigningIdentity) []byte {
		signature, err := by.Sign([]byte("end"))
		require.NoError(t, err)
		return signature
	}
	for _, host.height = range []uint64{2, 3} {
		o := newOracle(settings, host)
		epoch, err := o.recall()
		require.NoError(t, err)
		assert.EqualValues(t, 7, epoch)
		assert.True(t, o.learn(epoch))
		assert.False(t, o.learn(8), "it is known")
		for epoch, old := range map[uint64]bool{0: true, 6: true, 7: false} {
			o.epoch.Store(epoch)
			assert.True(t, o.Verify(1, []byte("end"), signed(before.signers[0])), "it has left")
			assert.True(t, o.Verify(2, []byte("end"), signed(now.signers[0])))
			assert.Equal(t, old, o.Verify(2, []byte("end"), signed(before.signers[1])), "the key that was replaced")
			assert.False(t, o.Verify(5, []byte("end"), signed(before.signers[1])))
			assert.False(t, o.Verify(6, []byte("end"), signed(now.signers[0])))
		}
	}
	host.height = 1
	o := newOracle(settings, host)
	_, err := o.recall()
	require.NoError(t, err)
	assert.Empty(t, o.keys.Load().keys, "nobody ordered before the first configuration")
}

// TestOneWithoutVotesBeginsAtItsConfigurationAlone: it would take any other block for the beginning of an epoch, which nobody
// else is in, and might vote a second time.
func TestOneWithoutVotesBeginsAtItsConfigurationAlone(t *testing.T) {
	before, now := configured(t), configured(t)
	host, settings := changedBy(t, before, now)
	n := &Node{settings: settings, host: host}
	host.height = 2
	state, err := n.joining()
	require.NoError(t, err)
	assert.EqualValues(t, 7, state.Begin.Seq)
	assert.Equal(t, bft.Group{Epoch: 7, Members: []bft.ID{2, 3, 4, 5}}, state.Begin.Next)
	host.height = 3
	_, err = n.joining()
	assert.ErrorContains(t, err, "bft-5 holds no votes, and block 2 came after the configuration of block 1")
}
