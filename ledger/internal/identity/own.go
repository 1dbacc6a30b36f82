package identity

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"sync"
)

// ownKept is how many of this process's own signatures are remembered: far more than there are transactions between
// an endorsement and its validation.
const ownKept = 4096

// own are the newest signatures that this process has made with SignOwn, by the digest that was signed.
var own ownSignatures

type ownSignatures struct {
	mu     sync.Mutex
	made   map[[sha256.Size]byte]ownSignature
	order  [ownKept][sha256.Size]byte // a ring
	oldest int
}

type ownSignature struct {
	key       *ecdsa.PublicKey
	signature string
}

func (o *ownSignatures) add(digest [sha256.Size]byte, key *ecdsa.PublicKey, signature []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made == nil {
		o.made = make(map[[sha256.Size]byte]ownSignature, ownKept)
	}
	delete(o.made, o.order[o.oldest])
	o.made[digest] = ownSignature{key, string(signature)}
	o.order[o.oldest] = digest
	o.oldest = (o.oldest + 1) % ownKept
}

// has reports whether this process has made this very signature with that key.
func (o *ownSignatures) has(digest [sha256.Size]byte, key *ecdsa.PublicKey, signature []byte) bool {
	o.mu.Lock()
	found, ok := o.made[digest]
	o.mu.Unlock()
	return ok && found.signature == string(signature) && found.key.Equal(key)
}
