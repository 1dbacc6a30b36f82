package auth

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
)

// signatures turns a way to sign into an Authenticator: one signature convinces everybody.
type signatures struct {
	sign   func(data []byte) []byte
	verify func(from Party, data, signature []byte) bool
}

func (s signatures) Tag(_ Party, data []byte) []byte           { return s.sign(data) }
func (s signatures) Broadcast(data []byte) []byte              { return s.sign(data) }
func (s signatures) Verify(from Party, data, tag []byte) bool  { return s.verify(from, data, tag) }
func (s signatures) VerifyBroadcast(p Party, d, t []byte) bool { return s.verify(p, d, t) }

func newEdwards(k Keys, of Party) signatures {
	own := k.ed25519(of)
	public := map[Party]ed25519.PublicKey{}
	for _, p := range k.parties() {
		public[p] = k.ed25519(p).Public().(ed25519.PublicKey)
	}
	return signatures{
		sign: func(data []byte) []byte { return ed25519.Sign(own, data) },
		verify: func(from Party, data, signature []byte) bool {
			key := public[from]
			return key != nil && ed25519.Verify(key, data, signature)
		},
	}
}

func newRSA(k Keys, of Party) (signatures, error) {
	var own *rsa.PrivateKey
	public := map[Party]*rsa.PublicKey{}
	for i, p := range k.parties() {
		if i >= len(k.RSA) {
			return signatures{}, fmt.Errorf("there are %d RSA keys for %d parties", len(k.RSA), len(k.parties()))
		}
		key, err := x509.ParsePKCS1PrivateKey(k.RSA[i])
		if err != nil {
			return signatures{}, err
		}
		public[p] = &key.PublicKey
		if p == of {
			own = key
		}
	}
	return signatures{
		sign: func(data []byte) []byte {
			digest := sha256.Sum256(data)
			signature, err := rsa.SignPKCS1v15(rand.Reader, own, crypto.SHA256, digest[:])
			if err != nil {
				return nil // nobody takes it for a signature
			}
			return signature
		},
		verify: func(from Party, data, signature []byte) bool {
			digest := sha256.Sum256(data)
			key := public[from]
			return key != nil && rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
		},
	}, nil
}

// macs has a key for each other party. What it tells all replicas carries a code for each of them.
type macs struct {
	own      Party
	replicas int
	keys     map[Party]*CMAC
}

func newMACs(k Keys, of Party) (macs, error) {
	m := macs{own: of, replicas: k.Replicas, keys: map[Party]*CMAC{}}
	for _, p := range k.parties() {
		key, err := k.cmac(of, p)
		if err != nil {
			return m, err
		}
		m.keys[p] = key
	}
	return m, nil
}

func (m macs) Tag(to Party, data []byte) []byte {
	key := m.keys[to]
	if key == nil {
		return nil
	}
	return key.Append(make([]byte, 0, MACSize), data)
}

// Broadcast leaves the sender's own place empty: nobody reads it.
func (m macs) Broadcast(data []byte) []byte {
	codes := make([]byte, 0, MACSize*m.replicas)
	for i := range m.replicas {
		if to := Party(i + 1); to == m.own {
			codes = append(codes, make([]byte, MACSize)...)
		} else {
			codes = m.keys[to].Append(codes, data)
		}
	}
	return codes
}

func (m macs) Verify(from Party, data, tag []byte) bool {
	key := m.keys[from]
	return key != nil && key.Verify(data, tag)
}

func (m macs) VerifyBroadcast(from Party, data, codes []byte) bool {
	at := (int(m.own) - 1) * MACSize
	if len(codes) != MACSize*m.replicas || m.own > Party(m.replicas) {
		return false
	}
	return from == m.own || m.Verify(from, data, codes[at:at+MACSize])
}
