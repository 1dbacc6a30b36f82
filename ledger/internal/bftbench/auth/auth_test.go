package auth

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unhex(t *testing.T, text string) []byte {
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	return raw
}

// The vectors are those of RFC 4493, section 4.
func TestCMACHasTheVectorsOfTheStandard(t *testing.T) {
	const message = "6bc1bee22e409f96e93d7e117393172a" + "ae2d8a571e03ac9c9eb76fac45af8e51" +
		"30c81c46a35ce411e5fbc1191a0a52ef" + "f69f2445df4f9b17ad2b417be66c3710"
	m, err := NewCMAC(unhex(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	require.NoError(t, err)
	assert.Equal(t, "fbeed618357133667c85e08f7236a8de", hex.EncodeToString(m.whole[:]), "K1")
	assert.Equal(t, "f7ddac306ae266ccf90bc11ee46d513b", hex.EncodeToString(m.short[:]), "K2")
	for length, code := range map[int]string{
		0:  "bb1d6929e95937287fa37d129b756746",
		16: "070a16b46b4d4144f79bdd9dd04a287c",
		40: "dfa66747de9ae63030ca32611497c827",
		64: "51f0bebf7e3b9d92fc49741779363cfe",
	} {
		data := unhex(t, message)[:length]
		assert.Equal(t, "00"+code, hex.EncodeToString(m.Append([]byte{0}, data)), "%d bytes", length)
		assert.True(t, m.Verify(data, unhex(t, code)))
		assert.False(t, m.Verify(append(data, 0), unhex(t, code)))
	}
}

func TestEachSchemeConvincesThoseItIsForAndNobodyElse(t *testing.T) {
	data, other := []byte("data"), []byte("other data")
	for _, scheme := range Schemes {
		t.Run(scheme, func(t *testing.T) {
			keys, err := NewKeys(scheme, 4, 1)
			require.NoError(t, err)
			suites := map[Party]Suite{}
			for _, p := range keys.parties() {
				suites[p], err = New(keys, p)
				require.NoError(t, err)
			}
			one, two, clients := suites[1], suites[2], suites[Machine(0)]
			assert.True(t, two.Links.Verify(1, data, one.Links.Tag(2, data)))
			assert.True(t, clients.Links.Verify(1, data, one.Links.Tag(Machine(0), data)))
			all := one.Links.Broadcast(data)
			for p := Party(2); p <= 4; p++ {
				assert.True(t, suites[p].Links.VerifyBroadcast(1, data, all))
			}
			assert.True(t, one.Links.VerifyBroadcast(1, data, all), "a replica takes its own word")
			assert.True(t, two.Requests.VerifyBroadcast(Machine(0), data, clients.Requests.Broadcast(data)))
			if scheme == None {
				return
			}
			assert.False(t, two.Links.Verify(1, other, one.Links.Tag(2, data)))
			assert.False(t, two.Links.Verify(3, data, one.Links.Tag(2, data)), "in another's name")
			assert.False(t, two.Links.VerifyBroadcast(1, other, all))
			assert.False(t, two.Links.VerifyBroadcast(1, data, all[:len(all)-1]))
			assert.False(t, two.Requests.VerifyBroadcast(Machine(0), other, clients.Requests.Broadcast(data)))
			assert.False(t, two.Links.Verify(9, data, one.Links.Tag(2, data)), "of nobody")
		})
	}
}

func TestAnUnknownSchemeIsRefused(t *testing.T) {
	_, err := NewKeys("md5", 4, 1)
	require.ErrorContains(t, err, "cmac")
	_, err = New(Keys{Scheme: "md5"}, 1)
	require.ErrorContains(t, err, "cmac")
}

func BenchmarkCMAC(b *testing.B) {
	m, _ := NewCMAC(make([]byte, 16))
	data := make([]byte, 80)
	for b.Loop() {
		m.Append(make([]byte, 0, 16), data)
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, scheme := range []string{ED25519, RSA} {
		b.Run(scheme, func(b *testing.B) {
			keys, _ := NewKeys(scheme, 1, 1)
			s, _ := New(keys, 1)
			data := make([]byte, 100)
			tag := s.Links.Broadcast(data)
			for b.Loop() {
				s.Links.VerifyBroadcast(1, data, tag)
			}
		})
		b.Run(scheme+"-sign", func(b *testing.B) {
			keys, _ := NewKeys(scheme, 1, 1)
			s, _ := New(keys, 1)
			data := make([]byte, 100)
			for b.Loop() {
				s.Links.Broadcast(data)
			}
		})
	}
}
