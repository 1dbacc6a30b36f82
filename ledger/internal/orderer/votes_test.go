package orderer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/replica"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/etcdraft"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestOtherConsentersHaveTheBlocks, whichever of them the seals name.
func TestOtherConsentersHaveTheBlocks(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"bft", "bft-5"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, part), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, part, "votes"), nil, 0o600))
	}
	for _, of := range []struct {
		ids   []uint64
		alone bool
	}{
		{ids: []uint64{2}}, {ids: []uint64{3, 4}}, {ids: []uint64{1, 6}},
		{ids: []uint64{1}, alone: true}, {ids: []uint64{5}, alone: true},
	} {
		err := mends(&replica.PBFT, dir, founders{4, 1}, blockfile.Lost{Block: 2, Seals: []*commonpb.Block{sealNaming(t, of.ids, 7)}})
		if of.alone {
			require.ErrorContains(t, err, "no other orderer", "%d", of.ids)
		} else {
			require.NoError(t, err, "%d", of.ids)
		}
	}
}

// sealNaming is a seal that names consenters, and the next id.
func sealNaming(t *testing.T, ids []uint64, next uint64) *commonpb.Block {
	t.Helper()
	return sealOf(t, 3, 0, channelconfig.Membership{IDs: ids, Next: next})
}

// sealOf is the seal of a block under a configuration.
func sealOf(t *testing.T, number, config uint64, members channelconfig.Membership) *commonpb.Block {
	t.Helper()
	raw, err := chain.RaftLog.Marshal(chain.Applied{Index: 5}, members)
	require.NoError(t, err)
	metadata, err := protoutil.SignedBlock(config, raw, nil)
	require.NoError(t, err)
	return &commonpb.Block{Header: &commonpb.BlockHeader{Number: number}, Metadata: metadata}
}

// TestVotesOfAnotherMembershipAreNotThoseThatAreLost: an orderer that was removed and added again has other votes.
func TestVotesOfAnotherMembershipAreNotThoseThatAreLost(t *testing.T) {
	seal := func(number, config uint64, ids ...uint64) *commonpb.Block {
		return sealOf(t, number, config, channelconfig.Membership{IDs: ids, Next: 9})
	}
	first, added := seal(3, 0, 1, 2, 3, 4), seal(4, 4, 2, 3, 4, 5)
	for what, of := range map[string]struct {
		folders string // with "+": has votes; with "!": has left
		lost    blockfile.Lost
		founder uint64
		refused string
	}{
		"lost":                   {folders: "bft+ bft-5", lost: blockfile.Lost{Seals: []*commonpb.Block{first, added, seal(5, 4, 2, 3, 4, 5)}}, founder: 1, refused: "no votes of the channel as its consenter 5"},
		"lost with the folder":   {folders: "bft+", lost: blockfile.Lost{Seals: []*commonpb.Block{added}}, founder: 1, refused: "consenter 5, which it may be"},
		"the latest":             {folders: "bft+! bft-5+", lost: blockfile.Lost{Seals: []*commonpb.Block{first, added}}, founder: 1},
		"just begun":             {folders: "bft+! bft-5", lost: blockfile.Lost{Seals: []*commonpb.Block{first, added}}, founder: 1},
		"begun, and something":   {folders: "bft+! bft-5", lost: blockfile.Lost{Seals: []*commonpb.Block{first, added}, Unknown: 1}, founder: 1, refused: "consenter 5"},
		"begun, who knows when":  {folders: "bft+! bft-5", lost: blockfile.Lost{Seals: []*commonpb.Block{added}}, founder: 1, refused: "consenter 5"},
		"of the earlier one":     {folders: "bft bft-5+", lost: blockfile.Lost{Seals: []*commonpb.Block{first, added}}, founder: 1, refused: "consenter 1"},
		"it has left":            {folders: "bft! bft-5+", lost: blockfile.Lost{Seals: []*commonpb.Block{first, added}}, founder: 1},
		"an unknown founder":     {folders: "bft+", lost: blockfile.Lost{Seals: []*commonpb.Block{first}}},
		"whose votes are lost":   {folders: "bft", lost: blockfile.Lost{Seals: []*commonpb.Block{first}}, refused: "no votes"},
		"and which is alone":     {folders: "bft+", lost: blockfile.Lost{Seals: []*commonpb.Block{seal(3, 2, 1)}}, refused: "no other orderer"},
		"a founder by then":      {lost: blockfile.Lost{Seals: []*commonpb.Block{sealOf(t, 3, 2, channelconfig.Membership{IDs: []uint64{1, 2, 3, 4}, Next: 5})}}, refused: "no votes"},
		"a follower from before": {lost: blockfile.Lost{Seals: []*commonpb.Block{sealNaming(t, []uint64{1, 2, 3, 4}, 5)}}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range strings.Fields(of.folders) {
				part := filepath.Join(dir, strings.Trim(folder, "+!"))
				require.NoError(t, os.MkdirAll(part, 0o755))
				if strings.Contains(folder, "+") {
					require.NoError(t, os.WriteFile(filepath.Join(part, "votes"), nil, 0o600))
				}
				if strings.Contains(folder, "!") {
					require.NoError(t, markLeft(part))
				}
			}
			of.lost.Block = 3
			err := mends(&replica.PBFT, dir, founders{4, of.founder}, of.lost)
			if of.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, of.refused)
			}
		})
	}
}

// TestOneThatHasOnlyFollowedHasNoVotesToLose, but may have had some where somebody has become a consenter.
func TestOneThatHasOnlyFollowedHasNoVotesToLose(t *testing.T) {
	sealed := func(next uint64) *commonpb.Block { return sealNaming(t, []uint64{1, 2, 3, 4}, next) }
	beginning := &commonpb.Block{Header: &commonpb.BlockHeader{}}
	for what, of := range map[string]struct {
		founder uint64
		seals   []*commonpb.Block
		refused bool
	}{
		"a founder":                    {founder: 1, seals: []*commonpb.Block{sealed(5)}, refused: true},
		"a follower":                   {seals: []*commonpb.Block{sealed(5)}},
		"a follower's first block":     {seals: []*commonpb.Block{beginning}},
		"somebody was added":           {seals: []*commonpb.Block{sealed(6), beginning}, refused: true},
		"somebody was added later":     {seals: []*commonpb.Block{sealed(5), sealed(6)}, refused: true},
		"who orders is nowhere to see": {refused: true},
	} {
		err := mends(&replica.PBFT, t.TempDir(), founders{4, of.founder}, blockfile.Lost{Block: 2, Seals: of.seals})
		if of.refused {
			require.ErrorContains(t, err, "no votes", what)
		} else {
			require.NoError(t, err, what)
		}
	}
}

// TestAMarkSaysWhoHasOnlyFollowed, also where there have been other configurations. A founder's own seals say more.
func TestAMarkSaysWhoHasOnlyFollowed(t *testing.T) {
	lost := blockfile.Lost{Block: 2, Seals: []*commonpb.Block{sealOf(t, 3, 2, channelconfig.Membership{IDs: []uint64{1, 2, 3, 4, 5}, Next: 6})}}
	dir := t.TempDir()
	require.ErrorContains(t, mends(&replica.PBFT, dir, founders{4, 0}, lost), "no votes")
	require.NoError(t, markFollower(dir))
	require.NoError(t, mends(&replica.PBFT, dir, founders{4, 0}, lost))
	require.ErrorContains(t, mends(&replica.PBFT, dir, founders{4, 1}, lost), "no votes")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bft-5"), 0o755))
	require.ErrorContains(t, mends(&replica.PBFT, dir, founders{4, 0}, lost), "no votes")
	require.NoError(t, unmarkFollower(dir))
	require.NoError(t, unmarkFollower(dir))
	require.False(t, hasOnlyFollowed(dir))
}

// TestOneThatHasOnlyFollowedHasNoLogToAsk: its blocks came from others. Without the mark its log may be lost, and with it
// what it has answered for.
func TestOneThatHasOnlyFollowedHasNoLogToAsk(t *testing.T) {
	lost, dir := blockfile.Lost{Block: 2}, t.TempDir()
	require.ErrorContains(t, mends(&etcdraft.Raft, dir, founders{3, 0}, lost), "if it never was a consenter, delete "+dir)
	for name, err := range map[string]error{
		"a founder": mends(&etcdraft.Raft, dir, founders{3, 1}, lost),
		"solo":      mends(&etcdraft.Solo, dir, founders{0, 0}, lost),
	} {
		require.ErrorIs(t, err, errNoLog, name)
		require.NotContains(t, err.Error(), "delete", name)
	}
	require.NoError(t, markFollower(dir))
	require.NoError(t, mends(&etcdraft.Raft, dir, founders{3, 0}, lost))
	require.ErrorContains(t, mends(&etcdraft.Raft, dir, founders{3, 1}, lost), "no log")
	require.ErrorContains(t, mends(&etcdraft.Raft, dir, founders{3, 0}, blockfile.Lost{}), "first block")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "raft-4"), 0o755))
	require.Error(t, mends(&etcdraft.Raft, dir, founders{3, 0}, lost), "it was a consenter")
}

// TestTheMarkIsMadeBeforeTheFirstBlockAndGoesBeforeTheFirstVote.
func TestTheMarkIsMadeBeforeTheFirstBlockAndGoesBeforeTheFirstVote(t *testing.T) {
	c := newCluster(t, bftOf(4))
	node := c.open(0)
	own := node.channels[ch]
	require.False(t, hasOnlyFollowed(own.dir), "a founder")
	require.NoError(t, own.noteFollowing())
	require.False(t, hasOnlyFollowed(own.dir), "it has a folder of votes")
	require.NoError(t, markFollower(own.dir))
	require.NoError(t, own.openPart())
	require.False(t, hasOnlyFollowed(own.dir), "it may vote from now on")
	require.NoError(t, node.close())

	node = c.open(1)
	defer func() { require.NoError(t, node.close()) }()
	follower := node.channels[ch]
	require.NoError(t, os.RemoveAll(follower.partDir(2)))
	c.unname(node, 1)
	require.NoError(t, follower.openPart())
	require.True(t, hasOnlyFollowed(follower.dir))
}
