package replica

import (
	"sync"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// verified names batches whose signatures of clients were found good, as orderers of the ledger remember them of
// transactions: a proposal that is sent again costs a digest in place of a hundred verifications.
type verified struct {
	mu          sync.Mutex
	now, before map[bft.Digest]struct{}
}

// remembered is how many batches at least: more than are under way at once.
const remembered = 4096

func (v *verified) has(batch bft.Digest) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, now := v.now[batch]
	_, before := v.before[batch]
	return now || before
}

func (v *verified) add(batch bft.Digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now == nil || len(v.now) >= remembered {
		v.before, v.now = v.now, map[bft.Digest]struct{}{}
	}
	v.now[batch] = struct{}{}
}
