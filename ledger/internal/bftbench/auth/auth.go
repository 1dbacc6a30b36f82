// Package auth is how replicas and clients prove to each other who they are: not at all, by ED25519, by RSA-2048, or
// by AES-CMAC between replicas. All schemes stand behind one interface.
package auth

import "fmt"

// The schemes.
const (
	None    = "none"
	ED25519 = "ed25519" // everywhere
	RSA     = "rsa"     // everywhere
	MAC     = "cmac"    // from replicas; clients sign with ED25519
)

// Schemes are those that New knows.
var Schemes = []string{None, ED25519, RSA, MAC}

// Authenticator speaks for one party. Goroutines may share it.
type Authenticator interface {
	// Tag proves data to one receiver.
	Tag(to Party, data []byte) []byte
	// Broadcast proves data to every replica at once.
	Broadcast(data []byte) []byte
	// Verify checks a Tag that was made for this party.
	Verify(from Party, data, tag []byte) bool
	// VerifyBroadcast checks what Broadcast made.
	VerifyBroadcast(from Party, data, tag []byte) bool
}

// Suite is what one party proves itself by.
type Suite struct {
	// Links is for what replicas send, to each other and to clients.
	Links Authenticator
	// Requests is for what clients send.
	Requests Authenticator
}

// New gives a party its suite.
func New(k Keys, of Party) (Suite, error) {
	switch k.Scheme {
	case None:
		return Suite{Links: nothing{}, Requests: nothing{}}, nil
	case ED25519:
		s := newEdwards(k, of)
		return Suite{Links: s, Requests: s}, nil
	case RSA:
		s, err := newRSA(k, of)
		return Suite{Links: s, Requests: s}, err
	case MAC:
		m, err := newMACs(k, of)
		return Suite{Links: m, Requests: newEdwards(k, of)}, err
	}
	return Suite{}, fmt.Errorf("there is no scheme %q: %v are accepted", k.Scheme, Schemes)
}

// nothing proves nothing.
type nothing struct{}

func (nothing) Tag(Party, []byte) []byte                   { return nil }
func (nothing) Broadcast([]byte) []byte                    { return nil }
func (nothing) Verify(Party, []byte, []byte) bool          { return true }
func (nothing) VerifyBroadcast(Party, []byte, []byte) bool { return true }
