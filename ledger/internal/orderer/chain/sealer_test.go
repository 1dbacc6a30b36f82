package chain

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// others signs a block twice, after it has looked at what followers see.
type others struct {
	f     *fixture
	chain *Chain
	seen  int // transactions that a follower could read meanwhile
	err   error
}

func (o *others) Seal(header *commonpb.BlockHeader, lastConfig uint64, consenter []byte) (*commonpb.BlockMetadata, error) {
	batch, _, err := o.chain.Read(o.f.t.Context(), Position{Block: header.Number})
	require.NoError(o.f.t, err)
	o.seen = len(batch.Items)
	var slot commonpb.Metadata
	var both *commonpb.BlockMetadata
	for range 2 {
		one, err := protoutil.SignBlock(o.f.signer, header, lastConfig, consenter)
		require.NoError(o.f.t, err)
		require.NoError(o.f.t, proto.UnmarshalOptions{Merge: true}.Unmarshal(one.Metadata[commonpb.BlockMetadataIndex_SIGNATURES], &slot))
		both = one
	}
	raw, err := proto.Marshal(&slot)
	require.NoError(o.f.t, err)
	both.Metadata[commonpb.BlockMetadataIndex_SIGNATURES] = raw
	return both, o.err
}

// TestAConsenterMaySignBlocksInItsOwnWay: with other signatures a block is the same one, and followers do not wait for them.
func TestAConsenterMaySignBlocksInItsOwnWay(t *testing.T) {
	f := newFixture(t)
	entries := []*streampb.LogEntry{f.entry(2, true), f.entry(2, false)}
	alone, c := f.open(t.TempDir()), f.open(t.TempDir())
	sealer := &others{f: f, chain: c}
	c.SealBy(sealer)
	require.NoError(t, alone.Apply(2, entries...))
	require.NoError(t, c.Apply(2, entries...))
	assert.Equal(t, 2, sealer.seen)
	assert.Equal(t, headers(t, alone), headers(t, c))
	assert.Equal(t, alone.Applied(), c.Applied())
	block, err := c.Block(1)
	require.NoError(t, err)
	var signed commonpb.Metadata
	require.NoError(t, proto.Unmarshal(block.Metadata.Metadata[commonpb.BlockMetadataIndex_SIGNATURES], &signed))
	assert.Len(t, signed.Signatures, 2)
	follower := f.open(t.TempDir())
	require.NoError(t, follower.Import(block), "the signatures count")

	sealer.err = errors.New("no quorum")
	require.ErrorIs(t, c.Apply(4, f.entry(1, true)), sealer.err)
	assert.Equal(t, uint64(2), c.Height(), "a block without signatures is none")
}
