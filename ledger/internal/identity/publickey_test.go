package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type keyPair struct {
	private *ecdsa.PrivateKey
	public  *publicKey
}

func newKeyPair(t *testing.T) keyPair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return keyPair{private, &publicKey{ecdsa: &private.PublicKey}}
}

// check verifies a right and a wrong signature.
func (k keyPair) check(t *testing.T) {
	t.Helper()
	message := make([]byte, 40)
	_, _ = rand.Read(message)
	r, s, err := ecdsa.Sign(rand.Reader, k.private, message[:32])
	require.NoError(t, err)
	require.True(t, k.public.holds(message[:32], r, s))
	message[0] ^= 1
	require.False(t, k.public.holds(message[:32], r, s))
}

func TestTablesAreBoundedAndFollowTheUse(t *testing.T) {
	if k := newKeyPair(t); !promoted(t, k) {
		t.Skip("no table on this processor")
	}
	keys := make([]keyPair, maxTables+3)
	for i := range keys {
		keys[i] = newKeyPair(t)
		keys[i].check(t)
		require.Nil(t, keys[i].public.table.Load(), "a key that was hardly seen")
		promoted(t, keys[i])
	}
	holders := 0
	for _, k := range keys {
		if k.public.table.Load() != nil {
			holders++
		}
		k.check(t) // with a table or without
	}
	require.LessOrEqual(t, holders, maxTables)
	require.Len(t, tables.keys, maxTables)

	newcomer := newKeyPair(t)
	first := promoted(t, newcomer)
	require.True(t, first || promoted(t, newcomer), "it takes the place of a key that is no longer used")
	require.Len(t, tables.keys, maxTables)
}

func promoted(t *testing.T, k keyPair) bool {
	t.Helper()
	for range promoteAfter / 2 {
		k.check(t)
	}
	return k.public.table.Load() != nil
}

func TestTablesAtOnce(t *testing.T) {
	keys := make([]keyPair, maxTables+2)
	for i := range keys {
		keys[i] = newKeyPair(t)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 2 * promoteAfter {
				keys[(i+worker)%len(keys)].check(t)
				keys[worker].check(t)
			}
		})
	}
	wg.Wait()
}
