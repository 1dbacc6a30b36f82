package pbft

import (
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// submit takes a client's transaction, and brings it to the leader.
func (c *Core) submit(tx []byte) {
	if c.Admit(tx, bft.TxDigest(tx), c.cfg.Timeout/2, c.isDecided) {
		c.Bring(tx)
	}
}

// onRequest takes what another replica's client has handed to it. Each replica that has it waits for
// it, so that a leader which leaves it out is given up.
func (c *Core) onRequest(from bft.ID, m *bft.Request) {
	if len(m.Txs) > pool.Relayed {
		return
	}
	for i, tx := range m.Txs {
		digest := bft.TxDigest(tx)
		if c.Pending.Has(digest) || c.isDecided(digest) {
			continue
		}
		if config, ok := c.Oracle.Check(tx); ok {
			c.Pending.Add(&pool.Item{Tx: m.Own(i), Digest: digest, Config: config, From: from, Since: c.Now})
		}
	}
}
