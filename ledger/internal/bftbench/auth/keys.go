package auth

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"slices"
)

// Party is who authenticates: a replica by its number from 1, or a machine of clients.
type Party uint64

// firstMachine is the party of the first machine of clients.
const firstMachine Party = 1 << 32

// Machine is the party of a machine of clients, which are numbered from 0.
func Machine(number int) Party { return firstMachine + Party(number) }

// Keys is all that the parties of one run have their keys from. Every process of a run is given it: a benchmark
// needs no secrets.
type Keys struct {
	Scheme   string
	Replicas int
	Machines int
	Secret   []byte
	// RSA are private keys in PKCS #1, replicas' first; only the scheme rsa has them.
	RSA [][]byte `json:",omitempty"`
}

// rsaBits is the size that the paper measures.
const rsaBits = 2048

// NewKeys makes the keys of a run.
func NewKeys(scheme string, replicas, machines int) (Keys, error) {
	k := Keys{Scheme: scheme, Replicas: replicas, Machines: machines, Secret: make([]byte, 32)}
	if !slices.Contains(Schemes, scheme) {
		return k, fmt.Errorf("there is no scheme %q: %v are accepted", scheme, Schemes)
	}
	_, _ = rand.Read(k.Secret) // it is documented never to fail
	if scheme != RSA {
		return k, nil
	}
	for range replicas + machines {
		key, err := rsa.GenerateKey(rand.Reader, rsaBits)
		if err != nil {
			return k, err
		}
		k.RSA = append(k.RSA, x509.MarshalPKCS1PrivateKey(key))
	}
	return k, nil
}

// parties are all that there are, in the order of RSA.
func (k Keys) parties() []Party {
	var all []Party
	for i := range k.Replicas {
		all = append(all, Party(i+1))
	}
	for i := range k.Machines {
		all = append(all, Machine(i))
	}
	return all
}

// derive names a secret by two parties.
func (k Keys) derive(what string, one, other Party) []byte {
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte(what))
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(min(one, other))))
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(max(one, other))))
	return mac.Sum(nil)
}

func (k Keys) ed25519(of Party) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(k.derive("ed25519", of, of))
}

func (k Keys) cmac(one, other Party) (*CMAC, error) {
	return NewCMAC(k.derive("cmac", one, other)[:MACSize])
}
