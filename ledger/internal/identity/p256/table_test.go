package p256_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/identity/p256"
)

var (
	curve = elliptic.P256()
	n     = curve.Params().N
)

func newKey(t testing.TB) (*ecdsa.PrivateKey, *p256.Table) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key, tableOf(t, &key.PublicKey)
}

func tableOf(t testing.TB, key *ecdsa.PublicKey) *p256.Table {
	t.Helper()
	table := p256.New(key)
	if table == nil {
		t.Skip("no table on this processor")
	}
	return table
}

// keyOf is the key pair of a chosen secret.
func keyOf(secret *big.Int) *ecdsa.PrivateKey {
	key := &ecdsa.PrivateKey{D: secret}
	key.Curve = curve
	//lint:ignore SA1019 a secret that no generator would choose
	key.X, key.Y = curve.ScalarBaseMult(secret.Bytes())
	return key
}

func same(t *testing.T, table *p256.Table, key *ecdsa.PublicKey, digest []byte, r, s *big.Int) bool {
	t.Helper()
	point, err := key.Bytes()
	require.NoError(t, err)
	want := ecdsa.Verify(key, digest, r, s)
	require.Equal(t, want, table.Verify(digest, r, s), "digest %x r %x s %x key %x", digest, r, s, point)
	return want
}

func TestAgreesWithTheStandardLibrary(t *testing.T) {
	for range 20 {
		key, table := newKey(t)
		_, foreign := newKey(t)
		for range 50 {
			digest := make([]byte, 32)
			_, _ = rand.Read(digest)
			r, s, err := ecdsa.Sign(rand.Reader, key, digest)
			require.NoError(t, err)
			require.True(t, same(t, table, &key.PublicKey, digest, r, s))
			require.True(t, same(t, table, &key.PublicKey, digest, r, new(big.Int).Sub(n, s)), "the high form is a signature too")
			require.False(t, foreign.Verify(digest, r, s), "another key")
			for _, bad := range [][2]*big.Int{
				{s, r},
				{r, new(big.Int).Add(s, n)},
				{new(big.Int).Add(r, n), s},
				{new(big.Int).Sub(n, r), s},
				{new(big.Int).Neg(r), s},
				{r, new(big.Int).Neg(s)},
				{new(big.Int).Xor(r, big.NewInt(1)), s},
				{r, new(big.Int).Xor(s, big.NewInt(1))},
			} {
				require.False(t, same(t, table, &key.PublicKey, digest, bad[0], bad[1]))
			}
			digest[7] ^= 0x10
			require.False(t, same(t, table, &key.PublicKey, digest, r, s), "another message")
		}
	}
}

func edgeScalars() []*big.Int {
	p := curve.Params().P
	out := []*big.Int{p, new(big.Int).Sub(p, big.NewInt(1)), new(big.Int).Lsh(big.NewInt(1), 255)}
	for d := int64(-3); d <= 3; d++ {
		out = append(out, big.NewInt(d), new(big.Int).Add(n, big.NewInt(d)),
			new(big.Int).Add(new(big.Int).Rsh(n, 1), big.NewInt(d)), new(big.Int).Sub(p, new(big.Int).Add(n, big.NewInt(d))))
	}
	for _, bit := range []uint{7, 8, 64, 128, 248, 256} {
		power := new(big.Int).Lsh(big.NewInt(1), bit)
		out = append(out, power, new(big.Int).Sub(power, big.NewInt(1)))
	}
	return out
}

func TestAgreesAtTheEdges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	key, table := newKey(t)
	for _, e := range edgeScalars() {
		digest := make([]byte, 32)
		new(big.Int).And(e, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))).FillBytes(digest)
		for _, r := range edgeScalars() {
			for _, s := range edgeScalars() {
				same(t, table, &key.PublicKey, digest, r, s)
			}
		}
		r, s, err := ecdsa.Sign(rand.Reader, key, digest)
		require.NoError(t, err)
		require.True(t, same(t, table, &key.PublicKey, digest, r, s), "digest %x", digest)
	}
}

// TestChosenScalars makes u1 and u2 what it likes: r = x(u1·G + u2·Q), s = r/u2, e = u1·s.
// So it reaches every carry of the digits, equal and opposite points, and infinity.
func TestChosenScalars(t *testing.T) {
	random, err := rand.Int(rand.Reader, n)
	require.NoError(t, err)
	secrets := []*big.Int{
		big.NewInt(1), big.NewInt(2), big.NewInt(3), new(big.Int).Sub(n, big.NewInt(1)), new(big.Int).Sub(n, big.NewInt(2)),
		new(big.Int).Lsh(big.NewInt(1), 8), new(big.Int).Lsh(big.NewInt(1), 248), random,
	}
	if testing.Short() {
		secrets = []*big.Int{big.NewInt(1), new(big.Int).Sub(n, big.NewInt(1)), random}
	}
	var scalars []*big.Int
	for _, v := range edgeScalars() {
		scalars = append(scalars, new(big.Int).Mod(v, n))
	}
	for _, pattern := range []byte{0x7f, 0x80, 0x81, 0xfe} {
		digits := make([]byte, 32)
		for i := range digits {
			digits[i] = pattern
		}
		scalars = append(scalars, new(big.Int).Mod(new(big.Int).SetBytes(digits), n))
	}
	valid, infinite := 0, 0
	for _, secret := range secrets {
		key := keyOf(secret)
		table := tableOf(t, &key.PublicKey)
		inverse := new(big.Int).ModInverse(secret, n)
		for _, u1 := range scalars {
			// -u1/secret makes the sum infinity, u1/secret makes both halves equal.
			equal := new(big.Int).Mod(new(big.Int).Mul(u1, inverse), n)
			for _, u2 := range append([]*big.Int{equal, new(big.Int).Mod(new(big.Int).Neg(equal), n)}, scalars...) {
				if u2.Sign() == 0 {
					continue
				}
				k := new(big.Int).Mul(u2, secret)
				k.Mod(k.Add(k, u1), n)
				r := big.NewInt(12345)
				if k.Sign() == 0 {
					infinite++
				} else {
					//lint:ignore SA1019 a chosen point
					x, _ := curve.ScalarBaseMult(k.Bytes())
					r = x.Mod(x, n)
				}
				s := new(big.Int).ModInverse(u2, n)
				s.Mod(s.Mul(s, r), n)
				digest := make([]byte, 32)
				e := new(big.Int).Mul(u1, s)
				e.Mod(e, n).FillBytes(digest)
				if same(t, table, &key.PublicKey, digest, r, s) {
					valid++
				}
			}
		}
	}
	require.Greater(t, valid, 1000)
	require.Greater(t, infinite, 100)
}

// TestXAboveTheOrder has a sum whose x lies between the order and the prime, so that r
// is x - order: about one in 2^32 of all points, so one is found by its x.
func TestXAboveTheOrder(t *testing.T) {
	x := new(big.Int).Set(n)
	var y *big.Int
	for y == nil {
		x.Add(x, big.NewInt(1))
		y = yOf(x)
	}
	require.Negative(t, x.Cmp(curve.Params().P))
	// Q = R/u2 - (u1/u2)·G for u1 = 0, u2 = 1 is R itself.
	key := &ecdsa.PublicKey{Curve: curve, X: x, Y: y}
	table := tableOf(t, key)
	r := new(big.Int).Sub(x, n)
	require.True(t, same(t, table, key, make([]byte, 32), r, r), "u1 = 0, u2 = r/s = 1")
	require.False(t, same(t, table, key, make([]byte, 32), new(big.Int).Add(r, big.NewInt(1)), r))
}

// yOf solves the curve's equation, or gives nil.
func yOf(x *big.Int) *big.Int {
	p := curve.Params().P
	v := new(big.Int).Exp(x, big.NewInt(3), p)
	v.Sub(v, new(big.Int).Mul(x, big.NewInt(3)))
	v.Mod(v.Add(v, curve.Params().B), p)
	return v.ModSqrt(v, p)
}

func TestNoTableForWhatIsNoKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	require.Nil(t, p256.New(&key.PublicKey))
	require.Nil(t, p256.New(&ecdsa.PublicKey{Curve: curve, X: big.NewInt(1), Y: big.NewInt(1)}), "not on the curve")
}

func FuzzVerify(f *testing.F) {
	key, table := newKey(f)
	digest := sha256.Sum256([]byte("message"))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	require.NoError(f, err)
	f.Add(digest[:], r.Bytes(), s.Bytes())
	f.Fuzz(func(t *testing.T, digest, r, s []byte) {
		if len(digest) != 32 || len(r) > 40 || len(s) > 40 {
			return
		}
		same(t, table, &key.PublicKey, digest, new(big.Int).SetBytes(r), new(big.Int).SetBytes(s))
	})
}

func BenchmarkVerify(b *testing.B) {
	key, table := newKey(b)
	digest := sha256.Sum256([]byte("message"))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	require.NoError(b, err)
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			table.Verify(digest[:], r, s)
		}
	})
	b.Run("standard", func(b *testing.B) {
		for b.Loop() {
			ecdsa.Verify(&key.PublicKey, digest[:], r, s)
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			p256.New(&key.PublicKey)
		}
	})
}
