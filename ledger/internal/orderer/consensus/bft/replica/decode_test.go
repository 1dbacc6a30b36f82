package replica

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/codectest"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/zyzzyva"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// TestWrongCountsOfSignaturesCostLittle, and no block has more signatures than there may be members.
func TestWrongCountsOfSignaturesCostLittle(t *testing.T) {
	signed := func(signatures int) []byte {
		all := make([]*commonpb.MetadataSignature, signatures)
		for i := range all {
			all[i] = &commonpb.MetadataSignature{Signature: []byte("s")}
		}
		return sealMessage(7, all...)
	}
	codectest.Hostile(t, signed(2), func(raw []byte) { _, _, _ = readSeal(raw) })

	_, signatures, err := readSeal(signed(bft.MaxMembers))
	require.NoError(t, err)
	require.Len(t, signatures, bft.MaxMembers)
	_, _, err = readSeal(signed(bft.MaxMembers + 1))
	require.ErrorIs(t, err, bft.ErrEncoding)
}

// TestAConfigurationNamesNoMoreThanAGroupHas: nobody could read what they sign.
func TestAConfigurationNamesNoMoreThanAGroupHas(t *testing.T) {
	require.EqualValues(t, bft.MaxMembers, channelconfig.MaxBFT)
}

// TestWhatNoClientSendsIsNotRead: anybody who may read the channel can send to its orderers as a client.
func TestWhatNoClientSendsIsNotRead(t *testing.T) {
	reads := 0
	n := &Node{mail: newMailbox(), protocol: Protocol{
		Hears: zyzzyva.ClientKind,
		Decode: func(raw []byte) (bft.Message, error) {
			reads++
			return zyzzyva.Decode(raw)
		},
	}}
	from := firstClient + 1
	for _, raw := range [][]byte{nil, zyzzyva.Encode(&zyzzyva.NewView{}), zyzzyva.Encode(&bft.Request{})} {
		require.Equal(t, codes.InvalidArgument, status.Code(n.hear(from, raw)))
	}
	require.Zero(t, reads)

	commit := zyzzyva.Encode(&zyzzyva.Commit{})
	require.NoError(t, n.hear(from, commit))
	require.Equal(t, codes.InvalidArgument, status.Code(n.hear(from, commit[:1])))
	require.Equal(t, 1, n.mail.len())
}
