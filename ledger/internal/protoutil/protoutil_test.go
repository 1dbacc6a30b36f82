package protoutil

import (
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

func fixture(t testing.TB, units ...string) (*identity.Manager, []*identity.SigningIdentity) {
	t.Helper()
	a, err := ca.New("ca", "example.com")
	require.NoError(t, err)
	m, err := identity.NewManager(identity.OrgConfig{MSPID: "OrdererMSP", RootCerts: [][]byte{a.CertPEM()}, OUs: identity.DefaultOUs()})
	require.NoError(t, err)
	var signers []*identity.SigningIdentity
	for _, unit := range units {
		cert, key, err := a.Issue(ca.Request{CommonName: unit, Unit: unit})
		require.NoError(t, err)
		s, err := identity.NewSigner("OrdererMSP", cert, key)
		require.NoError(t, err)
		signers = append(signers, s)
	}
	return m, signers
}

func TestHeaderHashIsFabrics(t *testing.T) {
	// Fabric marshals this struct with encoding/asn1.
	h := &commonpb.BlockHeader{Number: 1 << 63, PreviousHash: []byte{1, 2}, DataHash: []byte{3}}
	want, err := asn1.Marshal(struct {
		Number       *big.Int
		PreviousHash []byte
		DataHash     []byte
	}{new(big.Int).SetUint64(h.Number), h.PreviousHash, h.DataHash})
	require.NoError(t, err)
	assert.Equal(t, want, BlockHeaderBytes(h))
	sum := sha256.Sum256(want)
	assert.Equal(t, sum[:], BlockHeaderHash(h))
	empty := BlockHeaderBytes(&commonpb.BlockHeader{})
	assert.Equal(t, "3007020100"+"0400"+"0400", hex.EncodeToString(empty))
}

func TestDataHashGrowsWithTheBlock(t *testing.T) {
	d := NewDataHasher()
	d.Add([]byte("ab"))
	assert.Equal(t, DataHash([][]byte{[]byte("ab")}), d.Sum())
	d.Add([]byte("c"))
	assert.Equal(t, DataHash([][]byte{[]byte("ab"), []byte("c")}), d.Sum())
	sum := sha256.Sum256([]byte("abc"))
	assert.Equal(t, sum[:], d.Sum())
	d.Reset()
	assert.Equal(t, DataHash(nil), d.Sum())
}

func TestEnvelopeRoundTrip(t *testing.T) {
	m, signers := fixture(t, "client")
	env, txID, err := NewEnvelope(commonpb.HeaderType_ENDORSER_TRANSACTION, "ch", signers[0], []byte("ext"), []byte("data"))
	require.NoError(t, err)
	raw, err := proto.Marshal(env)
	require.NoError(t, err)
	msg, err := ParseEnvelope(raw)
	require.NoError(t, err)
	assert.Equal(t, "ch", msg.Channel.ChannelId)
	assert.Equal(t, txID, msg.Channel.TxId)
	assert.Equal(t, []byte("data"), msg.Data)
	assert.True(t, msg.HasOwnTxID())
	id, err := m.Deserialize(msg.Signature.Creator)
	require.NoError(t, err)
	require.NoError(t, id.Verify(env.Payload, env.Signature))
	msg.Signature.Nonce[0]++
	assert.False(t, msg.HasOwnTxID())
}

func TestOpenEnvelopeRefuses(t *testing.T) {
	marshal := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		return raw
	}
	build := func(channel string, nonce []byte) []byte {
		return marshal(&commonpb.Payload{Header: &commonpb.Header{
			ChannelHeader:   marshal(&commonpb.ChannelHeader{ChannelId: channel}),
			SignatureHeader: marshal(&commonpb.SignatureHeader{Nonce: nonce}),
		}})
	}
	for name, payload := range map[string][]byte{
		"no payload": nil, "garbage": {0xff}, "no header": marshal(&commonpb.Payload{Data: []byte("x")}),
		"no channel": build("", []byte{1}), "long channel": build(string(make([]byte, 250)), []byte{1}),
		"long nonce":     build("ch", make([]byte, 65)),
		"channel header": marshal(&commonpb.Payload{Header: &commonpb.Header{ChannelHeader: []byte{0xff}}}),
	} {
		_, err := OpenEnvelope(&commonpb.Envelope{Payload: payload})
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
	_, err := OpenEnvelope(&commonpb.Envelope{Payload: build("ch", []byte{1})})
	require.NoError(t, err)
	msg, err := OpenEnvelope(&commonpb.Envelope{Payload: build("ch", nil)})
	require.NoError(t, err, "a request for blocks has no nonce")
	assert.False(t, msg.HasNonce())
}

func TestUnmarshalBoundsNesting(t *testing.T) {
	deep := &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_SignedBy{SignedBy: 1}}
	for range maxNesting {
		deep = &commonpb.SignaturePolicy{Type: &commonpb.SignaturePolicy_NOutOf_{NOutOf: &commonpb.SignaturePolicy_NOutOf{Rules: []*commonpb.SignaturePolicy{deep}}}}
	}
	raw, err := proto.Marshal(deep)
	require.NoError(t, err)
	require.ErrorIs(t, Unmarshal(raw, &commonpb.SignaturePolicy{}), ErrMalformed)
}

func TestBlockSignature(t *testing.T) {
	m, signers := fixture(t, "orderer", "client")
	rule, err := policy.Parse("OR('OrdererMSP.orderer')")
	require.NoError(t, err)
	pol, err := policy.Compile(rule)
	require.NoError(t, err)
	header := &commonpb.BlockHeader{Number: 7, PreviousHash: []byte("p"), DataHash: []byte("d")}
	metadata, err := SignBlock(signers[0], header, 3, []byte("raft"))
	require.NoError(t, err)
	require.NoError(t, VerifyBlock(header, metadata, m, pol, nil))
	last, consenter, err := OrdererMetadata(metadata)
	require.NoError(t, err)
	assert.Equal(t, uint64(3), last)
	assert.Equal(t, []byte("raft"), consenter)

	changed := proto.Clone(header).(*commonpb.BlockHeader)
	changed.Number++
	require.ErrorIs(t, VerifyBlock(changed, metadata, m, pol, nil), identity.ErrSignature)
	require.ErrorIs(t, VerifyBlock(header, &commonpb.BlockMetadata{}, m, pol, nil), ErrBlockSignature)
	require.ErrorIs(t, VerifyBlock(header, nil, m, pol, nil), ErrBlockSignature)

	client, err := SignBlock(signers[1], header, 3, nil)
	require.NoError(t, err)
	require.ErrorContains(t, VerifyBlock(header, client, m, pol, nil), "policy")
	foreign, _ := fixture(t)
	require.ErrorIs(t, VerifyBlock(header, metadata, foreign, pol, nil), identity.ErrUntrusted)

	signed, err := signedMetadata(metadata)
	require.NoError(t, err)
	for len(signed.Signatures) <= maxSignatures {
		signed.Signatures = append(signed.Signatures, signed.Signatures[0])
	}
	metadata.Metadata[commonpb.BlockMetadataIndex_SIGNATURES], err = proto.Marshal(signed)
	require.NoError(t, err)
	require.ErrorContains(t, VerifyBlock(header, metadata, m, pol, nil), "65 signatures, at most 64 are accepted")
}

func FuzzParseEnvelope(f *testing.F) {
	_, signers := fixture(f, "client")
	env, _, err := NewEnvelope(commonpb.HeaderType_MESSAGE, "ch", signers[0], nil, []byte("x"))
	require.NoError(f, err)
	raw, err := proto.Marshal(env)
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ParseEnvelope(data); err == nil && m.Channel.ChannelId == "" {
			t.Fatal("accepted an envelope without channel")
		}
	})
}
