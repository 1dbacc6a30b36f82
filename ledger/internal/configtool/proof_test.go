package configtool

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/network"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// seal has these orderers sign a block as consenters of a configuration.
func (w *town) seal(t *testing.T, under *channelconfig.Bundle, block *commonpb.Block, orderers ...int) {
	t.Helper()
	file, err := network.Load(w.network)
	require.NoError(t, err)
	var nodes []network.Node
	for _, n := range file.Nodes {
		if n.Role == "orderer" {
			nodes = append(nodes, n)
		}
	}
	var signatures []*commonpb.MetadataSignature
	for _, i := range orderers {
		cfg, err := nodeconfig.Load(filepath.Join(filepath.Dir(w.network), nodes[i].Config), nodeconfig.RoleOrderer)
		require.NoError(t, err)
		signer, err := cfg.Signer()
		require.NoError(t, err)
		number := slices.IndexFunc(under.Orderer.Consenters, func(c *etcdraftpb.Consenter) bool {
			return channelconfig.ConsenterAddress(c) == nodes[i].Address
		})
		s, err := protoutil.SignAsConsenter(signer, under.Orderer.Numbers[number], block.Header, block.Header.Number, nil)
		require.NoError(t, err)
		signatures = append(signatures, s)
	}
	block.Metadata, err = protoutil.SignedBlock(block.Header.Number, nil, signatures)
	require.NoError(t, err)
}

// genesis is the channel's first block.
func (w *town) genesis(t *testing.T) (*commonpb.Block, *channelconfig.Bundle) {
	t.Helper()
	block, bundle, err := nodeconfig.Channel{Name: "mychannel", Genesis: w.first()}.GenesisBlock()
	require.NoError(t, err)
	return block, bundle
}

// without makes the block of the next configuration, in which these of its consenters are no more.
func (w *town) without(t *testing.T, before *commonpb.Block, of *channelconfig.Bundle, removed ...int) (*commonpb.Block, *channelconfig.Bundle) {
	t.Helper()
	var patch channelconfig.Patch
	for _, i := range removed {
		address := channelconfig.ConsenterAddress(of.Orderer.Consenters[i])
		patch.Consenters = append(patch.Consenters, channelconfig.ConsenterPatch{Address: address, Remove: true})
	}
	config, err := patch.Apply(of.Config)
	require.NoError(t, err)
	config.Sequence = of.Sequence + 1
	block := follow(t, before, config, nil)
	bundle, err := channelconfig.FromBlock(block)
	require.NoError(t, err)
	return block, bundle
}

// isLeft stops all orderers but one, which has this newest block.
func (w *town) isLeft(left int, newest *commonpb.Block) {
	w.honest.newest = newest
	for i, stop := range w.stop {
		if i != left {
			stop()
		}
	}
}

// TestOrderersThatAreRemovedNeedNotAnswer where those who ordered before have signed who is left.
func TestOrderersThatAreRemovedNeedNotAnswer(t *testing.T) {
	for _, kind := range []string{"bft", "zyzzyva"} {
		t.Run(kind, func(t *testing.T) {
			w := newTown(t, kind)
			genesis, bundle := w.genesis(t)
			newest, _ := w.without(t, genesis, bundle, 0, 1, 3)
			w.seal(t, bundle, newest, 0, 1, 3)
			w.isLeft(2, newest)
			out, err := w.run(t, "show")
			require.NoError(t, err)
			assert.Contains(t, out, `"block": 1`)
			out, err = w.run(t, "upgrade-chaincode", "smallbank", "--version", "2.0")
			require.NoError(t, err)
			assert.Contains(t, out, "configuration 2 is in force from block 2 on")
		})
	}
}

// TestEachConfigurationIsSignedByThoseBeforeIt, and by too few of them it is none.
func TestEachConfigurationIsSignedByThoseBeforeIt(t *testing.T) {
	for name, of := range map[string]struct {
		first, second []int
		refused       bool
	}{
		"a quorum each":         {first: []int{0, 1, 2}, second: []int{1, 2, 3}},
		"few signed the first":  {first: []int{1, 2}, second: []int{1, 2, 3}, refused: true},
		"few signed the second": {first: []int{0, 1, 2}, second: []int{2}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, "bft")
			genesis, bundle := w.genesis(t)
			first, three := w.without(t, genesis, bundle, 0)
			w.seal(t, bundle, first, of.first...)
			between := proto.Clone(first).(*commonpb.Block) // its metadata names the configuration of block 1
			between.Header.Number, between.Header.PreviousHash = 2, protoutil.BlockHeaderHash(first.Header)
			newest, _ := w.without(t, between, three, 0, 2)
			w.seal(t, three, newest, of.second...)
			w.honest.older = map[uint64]*commonpb.Block{1: first, 2: between}
			w.isLeft(2, newest)
			out, err := w.run(t, "show")
			if of.refused {
				require.ErrorContains(t, err, "2 of the 4 orderers must give the same configuration: ")
				return
			}
			require.NoError(t, err)
			assert.Contains(t, out, `"block": 3`)
		})
	}
}
