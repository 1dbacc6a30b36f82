package pbft

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// submit takes a client's transaction, and brings it to the leader.
func (c *Core) submit(tx []byte) {
	digest := bft.TxDigest(tx)
	config, ok := c.oracle.Check(tx)
	switch {
	case !ok: // the orderer has let it in
		c.out.Refused = append(c.out.Refused, bft.Refusal{Tx: digest, Reason: bft.ErrOutdated})
	case c.isDecided(digest):
	case c.pending.Has(digest):
		if c.pending.Adopt(digest, c.now+c.cfg.Timeout/2) {
			c.bring(tx)
		}
	case !c.pending.Add(&pool.Item{Tx: tx, Digest: digest, Config: config, From: c.cfg.ID, Since: c.now, RelayAt: c.now + c.cfg.Timeout/2}):
		c.out.Refused = append(c.out.Refused, bft.Refusal{Tx: digest, Reason: bft.ErrOverload})
	default:
		c.bring(tx)
	}
}

// bring hands a client's transaction to the leader.
func (c *Core) bring(tx []byte) {
	m := &bft.Request{Txs: [][]byte{tx}}
	switch {
	case c.leads():
	case c.suspect.Silent(c.now): // all begin to wait for it at once
		c.broadcast(m)
	default:
		c.send(c.group.Leader(c.view), m)
	}
}

// onRequest takes what another replica's client has handed to it. Each replica that has it waits for
// it, so that a leader which leaves it out is given up.
func (c *Core) onRequest(from bft.ID, m *bft.Request) {
	if len(m.Txs) > pool.Relayed {
		return
	}
	for _, tx := range m.Txs {
		digest := bft.TxDigest(tx)
		if c.pending.Has(digest) || c.isDecided(digest) {
			continue
		}
		if config, ok := c.oracle.Check(tx); ok {
			c.pending.Add(&pool.Item{Tx: tx, Digest: digest, Config: config, From: from, Since: c.now})
		}
	}
}

// relay brings to all replicas what a client has handed to this one and the leader takes long for.
func (c *Core) relay() {
	if txs := c.pending.Relay(c.now, c.cfg.Timeout/2); len(txs) > 0 {
		c.broadcast(&bft.Request{Txs: txs})
	}
}

// forward brings to a new leader all that this replica's clients wait for.
func (c *Core) forward() {
	if c.leads() {
		return
	}
	for _, txs := range c.pending.Own() {
		c.send(c.group.Leader(c.view), &bft.Request{Txs: txs})
	}
}
