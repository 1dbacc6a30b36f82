package chain

import "github.com/qioi/qioi/ledger/internal/peer/validate"

// maxRefused is how many of the newest refused transactions are known: who asks does so soon after sending.
const maxRefused = 10_000

// refused are transactions that their creators have signed and that do not count, since these are not admitted, or no
// longer so. Their ids stay free, so that none of this is on disk.
type refused struct {
	places map[validate.TxKey]place
	order  []validate.TxKey
}

func (r *refused) add(key validate.TxKey, at place) {
	if _, again := r.places[key]; again {
		return // the first verdict is the one that is told
	}
	r.places[key] = at
	if r.order = append(r.order, key); len(r.order) > maxRefused {
		delete(r.places, r.order[0])
		r.order = r.order[1:]
	}
}

// rewind forgets those from that block on.
func (r *refused) rewind(block uint64) {
	n := len(r.order)
	for ; n > 0 && r.places[r.order[n-1]].block >= block; n-- {
		delete(r.places, r.order[n-1])
	}
	r.order = r.order[:n]
}

// refuse enters a refused transaction.
func (x *index) refuse(key validate.TxKey, at Position, code Code) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused.add(key, place{block: at.Block, tx: uint32(at.Tx), code: uint8(code)})
}

// isRefused finds one that is durable, unless it has come again and counts: who waits hears of that then.
func (x *index) isRefused(key validate.TxKey) (Status, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, ok := x.refused.places[key]
	_, counts := x.recent[key]
	return p.status(), ok && !counts && p.status().Position.Before(x.durable)
}
