package chain

import (
	"slices"
	"sort"

	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
)

// maxRefused is how many of the newest refused transactions are known: who asks does so soon after sending.
const maxRefused = 10_000

// refused are transactions that their creators have signed and that do not count, since these are not admitted, or no
// longer so. Their ids stay free, so that they are not among those on disk: checkpoints have them.
type refused struct {
	places map[validate.TxKey]place
	order  []txids.ID
}

func (r *refused) add(id txids.ID) {
	if _, again := r.places[id.Key]; again {
		return // the first verdict is the one that is told
	}
	r.places[id.Key] = place{block: id.Block, tx: id.Tx, code: id.Code}
	if r.order = append(r.order, id); len(r.order) > maxRefused {
		delete(r.places, r.order[0].Key)
		r.order = r.order[1:]
	}
}

// upTo is how many are of blocks below that number.
func (r *refused) upTo(block uint64) int {
	return sort.Search(len(r.order), func(i int) bool { return r.order[i].Block >= block })
}

// rewind forgets those from that block on.
func (r *refused) rewind(block uint64) {
	n := r.upTo(block)
	for i := range r.order[n:] {
		delete(r.places, r.order[n:][i].Key)
	}
	r.order = r.order[:n]
}

// refuse enters a refused transaction.
func (x *index) refuse(key validate.TxKey, at Position, code Code) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused.add(txids.ID{Key: key, Block: at.Block, Tx: uint32(at.Tx), Code: uint8(code)})
}

// refusedBefore gives those of blocks below that number.
func (x *index) refusedBefore(block uint64) []txids.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.refused.order[:x.refused.upTo(block)])
}

// refuseAgain enters those that a checkpoint has.
func (x *index) refuseAgain(ids []txids.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		x.refused.add(id)
	}
}

// isRefused finds one that is durable, unless it has come again and counts: who waits hears of that then.
func (x *index) isRefused(key validate.TxKey) (Status, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, ok := x.refused.places[key]
	_, counts := x.recent[key]
	return p.status(), ok && !counts && p.status().Position.Before(x.durable)
}
