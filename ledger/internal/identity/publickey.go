package identity

import (
	"crypto/ecdsa"
	"math/big"
	"sync"
	"sync/atomic"

	"github.com/qioi/qioi/ledger/internal/identity/p256"
)

const (
	// promoteAfter is how many signatures of a key are checked before it is worth a
	// table: making one costs about as much as 25 checks without.
	promoteAfter = 64
	// maxTables bounds the memory: 16 tables of 256 KiB in a process.
	maxTables = 16
)

// publicKey checks the signatures of one key: the first ones as they come, those of a
// key that goes on signing five times as fast with a table of its multiples.
type publicKey struct {
	ecdsa  *ecdsa.PublicKey
	table  atomic.Pointer[p256.Table]
	recent atomic.Uint32 // checks since tables were last handed out
}

func (k *publicKey) holds(digest []byte, r, s *big.Int) bool {
	checks := k.recent.Add(1)
	if table := k.table.Load(); table != nil {
		return table.Verify(digest, r, s)
	}
	if checks%promoteAfter == 0 {
		tables.promote(k)
	}
	return ecdsa.Verify(k.ecdsa, digest, r, s)
}

// tables are the keys of this process that have a table.
var tables tableSet

type tableSet struct {
	mu   sync.Mutex
	keys []*publicKey
}

// promote makes a table for a key. Where there are enough already, it takes that of the
// key that was used least since the last time, provided that it was used less.
func (t *tableSet) promote(k *publicKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.table.Load() != nil {
		return
	}
	at := len(t.keys)
	if at == maxTables {
		at = t.coldest()
		cold := t.keys[at].recent.Load()
		for _, other := range t.keys {
			other.recent.Store(0)
		}
		if cold >= k.recent.Load() {
			return
		}
	}
	table := p256.New(k.ecdsa)
	if table == nil {
		return
	}
	if at == len(t.keys) {
		t.keys = append(t.keys, k)
	} else {
		t.keys[at].table.Store(nil)
		t.keys[at] = k
	}
	k.table.Store(table)
}

func (t *tableSet) coldest() int {
	at := 0
	for i, k := range t.keys {
		if k.recent.Load() < t.keys[at].recent.Load() {
			at = i
		}
	}
	return at
}
