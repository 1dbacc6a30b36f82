package base

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// Admit takes a transaction that a client has handed to this replica, which has a while to be ordered before it is relayed.
// It is refused where the configuration does not allow it, or too much waits. Admit reports whether to bring it to the
// leader: not where it is decided, or this replica has brought it before.
func (r *Replica[S]) Admit(tx []byte, digest bft.Digest, while bft.Time, decided func(bft.Digest) bool) bool {
	config, ok := r.Oracle.Check(tx)
	switch {
	case !ok: // the orderer has let it in
		r.Out.Refused = append(r.Out.Refused, bft.Refusal{Tx: digest, Reason: bft.ErrOutdated})
		return false
	case decided(digest):
		return false
	case r.Pending.Has(digest):
		return r.Pending.Adopt(digest, r.Now+while)
	case !r.Pending.Add(&pool.Item{Tx: tx, Digest: digest, Config: config, From: r.ID, Since: r.Now, RelayAt: r.Now + while}):
		r.Out.Refused = append(r.Out.Refused, bft.Refusal{Tx: digest, Reason: bft.ErrOverload})
		return false
	}
	return true
}

// Bring hands a client's transaction to the leader.
func (r *Replica[S]) Bring(tx []byte) {
	m := &bft.Request{Txs: [][]byte{tx}}
	switch {
	case r.Leads():
	case r.Suspect.Silent(r.Now): // all begin to wait for it at once
		r.Broadcast(m)
	default:
		r.Send(r.Leader(), m)
	}
}

// Remind brings the leader a transaction that it should have.
func (r *Replica[S]) Remind(tx []byte) { r.Send(r.Leader(), &bft.Request{Txs: [][]byte{tx}}) }

// Relay brings to all replicas what a client has handed to this one and the leader takes long for. The rest of it waits for a
// while.
func (r *Replica[S]) Relay(while bft.Time) {
	if txs := r.Pending.Relay(r.Now, while); len(txs) > 0 {
		r.Broadcast(&bft.Request{Txs: txs})
	}
}

// Forward brings to a new leader all that this replica's clients wait for.
func (r *Replica[S]) Forward() {
	if r.Leads() {
		return
	}
	for _, txs := range r.Pending.Own() {
		r.Send(r.Leader(), &bft.Request{Txs: txs})
	}
}
