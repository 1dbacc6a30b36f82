package identity

import (
	"crypto/sha256"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/ca"
)

func TestAnOwnSignatureIsKnownAgainAndNothingElse(t *testing.T) {
	a := authority(t, "org1")
	m := manager(t, a)
	signer, other := issue(t, a, "Org1MSP", ca.Request{CommonName: "peer0", Unit: "peer"}), issue(t, a, "Org1MSP", ca.Request{CommonName: "peer1", Unit: "peer"})
	id, err := m.Deserialize(signer.Serialized())
	require.NoError(t, err)
	stranger, err := m.Deserialize(other.Serialized())
	require.NoError(t, err)
	for range 8 {
		signature, err := signer.SignOwn([]byte("m"))
		require.NoError(t, err)
		digest := sha256.Sum256([]byte("m"))
		assert.True(t, own.has(digest, id.key.ecdsa, signature))
		require.NoError(t, id.Verify([]byte("m"), signature))

		require.ErrorIs(t, stranger.Verify([]byte("m"), signature), ErrSignature, "somebody else's key")
		require.ErrorIs(t, id.Verify([]byte("n"), signature), ErrSignature, "another message")
		r, s, err := parseSignature(signature)
		require.NoError(t, err)
		high, err := marshalSignature(r, new(big.Int).Sub(curveOrder, s))
		require.NoError(t, err)
		require.ErrorIs(t, id.Verify([]byte("m"), high), ErrHighS, "its other form")
		require.ErrorIs(t, id.Verify([]byte("m"), signature[:len(signature)-1]), ErrSignatureEncoding)

		plain, err := signer.Sign([]byte("plain"))
		require.NoError(t, err)
		assert.False(t, own.has(sha256.Sum256([]byte("plain")), id.key.ecdsa, plain), "only what is asked for is kept")
	}
}

func TestOwnSignaturesAreBounded(t *testing.T) {
	var o ownSignatures
	k := newKeyPair(t)
	digest := func(i int) [sha256.Size]byte { return [sha256.Size]byte{byte(i), byte(i >> 8), 1} }
	for i := range ownKept + 10 {
		o.add(digest(i), k.public.ecdsa, []byte("s"))
	}
	assert.Len(t, o.made, ownKept)
	assert.False(t, o.has(digest(9), k.public.ecdsa, []byte("s")))
	assert.True(t, o.has(digest(10), k.public.ecdsa, []byte("s")))
	assert.True(t, o.has(digest(ownKept+9), k.public.ecdsa, []byte("s")))
}
