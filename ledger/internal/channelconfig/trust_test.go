package channelconfig

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/etcdraftpb"
)

// TestTrust: a kind that is not known to survive crashes alone inherits nothing.
func TestTrust(t *testing.T) {
	for _, crashes := range []string{Solo, Raft, Kafka, Sequencer} {
		assert.Equal(t, Trust{Seals: 1, Words: 1, Answers: 1, Forwarded: true}, trustOf(crashes, Stream, 3), crashes)
		assert.Equal(t, Trust{Seals: 1, Answers: 1, Forwarded: true}, trustOf(crashes, Block, 3), crashes)
	}
	assert.Equal(t, Trust{Seals: 3, Answers: 2}, trustOf("bft", Block, 4))
	assert.Equal(t, Trust{Seals: 3, Words: 2, Answers: 2}, trustOf("bft", Stream, 4))
	assert.Equal(t, Trust{Seals: 3, Words: 2, Answers: 2, Histories: true}, trustOf("zyzzyva", Stream, 4))
	assert.Equal(t, Trust{Seals: 5, Words: 3, Answers: 3}, trustOf("bft", Stream, 7))
	assert.Equal(t, Trust{Seals: 1, Words: 2, Answers: 1}, trustOf("bft", Stream, 1), "a kind that is unknown is believed at its seals alone")
}

// TestQuorum: any two quorums share a correct consenter, and the correct ones alone are one.
func TestQuorum(t *testing.T) {
	for n := 1; n <= 100; n++ {
		faulty, q := (n-1)/3, Quorum(n)
		assert.Greater(t, 2*q-n, faulty, "of %d", n)
		assert.LessOrEqual(t, q, n-faulty, "of %d", n)
	}
}

// TestOneSignatureIsNoSealWhereOrderersMayLie, though BlockValidation is satisfied: nor is the same one twice.
func TestOneSignatureIsNoSealWhereOrderersMayLie(t *testing.T) {
	w, g := newWorld(t)
	g.Consenters = nil
	for port := range uint32(4) {
		g.Consenters = append(g.Consenters, &etcdraftpb.Consenter{Host: "127.0.0.1", Port: 7050 + port})
	}
	genesis, err := NewGenesis(g)
	require.NoError(t, err)
	b, err := FromBlock(genesis)
	require.NoError(t, err)
	header := &commonpb.BlockHeader{Number: 1, PreviousHash: []byte("before"), DataHash: []byte("data")}
	var sealed commonpb.Metadata // with one more signature each time
	var first *commonpb.MetadataSignature
	for signers := 1; signers <= 3; signers++ {
		cert, key, err := w["OrdererMSP"].Issue(ca.Request{CommonName: fmt.Sprint("orderer", signers), Unit: "orderer"})
		require.NoError(t, err)
		signer, err := identity.NewSigner("OrdererMSP", cert, key)
		require.NoError(t, err)
		one, err := protoutil.SignBlock(signer, header, 0, nil)
		require.NoError(t, err)
		var more commonpb.Metadata
		require.NoError(t, proto.Unmarshal(one.Metadata[commonpb.BlockMetadataIndex_SIGNATURES], &more))
		sealed.Value, sealed.Signatures = more.Value, append(sealed.Signatures, more.Signatures...)
		if first == nil {
			first = more.Signatures[0]
		}
		verdict := func(kind string, signatures ...*commonpb.MetadataSignature) error {
			raw, err := proto.Marshal(&commonpb.Metadata{Value: sealed.Value, Signatures: signatures})
			require.NoError(t, err)
			one.Metadata[commonpb.BlockMetadataIndex_SIGNATURES] = raw
			b.Orderer.ConsensusType = kind
			return b.VerifySeal(header, one)
		}
		require.NoError(t, verdict(Raft, sealed.Signatures...))
		if signers < 3 {
			require.ErrorIs(t, verdict("bft", sealed.Signatures...), protoutil.ErrBlockSignature)
			require.ErrorIs(t, verdict("bft", append(sealed.Signatures, first, first)...), protoutil.ErrBlockSignature)
		} else {
			require.NoError(t, verdict("bft", sealed.Signatures...))
		}
	}
}

// TestOnlyConsentersSignaturesMakeAQuorum, whatever BlockValidation asks for: nobody else's fill up a seal.
func TestOnlyConsentersSignaturesMakeAQuorum(t *testing.T) {
	for _, kind := range []string{BFT, Zyzzyva} {
		g, signers := bftWorld(t, 6)
		g.ConsensusType, g.Consenters, g.Identities = kind, g.Consenters[:4], g.Identities[:4]
		block, err := NewGenesis(g)
		require.NoError(t, err)
		b, err := FromBlock(block)
		require.NoError(t, err)
		config, err := (&Patch{Policies: map[string]string{BlockValidation: "ANY Writers"}}).Apply(b.Config)
		require.NoError(t, err)
		b, err = FromConfig("mychannel", config)
		require.NoError(t, err)
		header := &commonpb.BlockHeader{Number: 1, PreviousHash: []byte("before"), DataHash: []byte("data")}
		named := func(i int) *commonpb.MetadataSignature {
			s, err := protoutil.SignAsConsenter(signers[i], b.Orderer.Numbers[i], header, 0, nil)
			require.NoError(t, err)
			return s
		}
		shown := func(i int) *commonpb.MetadataSignature {
			one, err := protoutil.SignBlock(signers[i], header, 0, nil)
			require.NoError(t, err)
			signatures, err := protoutil.BlockSignatures(one)
			require.NoError(t, err)
			return signatures[0]
		}
		verdict := func(signatures ...*commonpb.MetadataSignature) error {
			metadata, err := protoutil.SignedBlock(0, nil, signatures)
			require.NoError(t, err)
			return b.VerifySeal(header, metadata)
		}
		require.NoError(t, verdict(named(0), named(1), named(2)))
		require.NoError(t, verdict(named(0), named(1), shown(2)), "it is a consenter by its certificate")
		require.NoError(t, verdict(named(0), named(1), named(2), shown(4)), "others do no harm")
		require.ErrorIs(t, verdict(named(0), named(1), shown(1)), protoutil.ErrBlockSignature)
		require.ErrorIs(t, verdict(named(0), shown(4), shown(5)), protoutil.ErrBlockSignature)
		require.ErrorIs(t, verdict(named(0), named(1), shown(4)), protoutil.ErrBlockSignature)
	}
}
