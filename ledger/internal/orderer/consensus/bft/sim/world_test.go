package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// TestWhatNoLongerHoldsIsNotApplied: a configuration came first.
func TestWhatNoLongerHoldsIsNotApplied(t *testing.T) {
	for name, c := range map[string]struct {
		tx      []byte
		configs int // that are in force
		holds   bool
	}{
		"in time":                  {outdatedBy(0, 1), 0, true},
		"outdated":                 {outdatedBy(0, 1), 1, false},
		"another configuration":    {rivalOf(0, members(4)), 0, true},
		"a rival that comes later": {rivalOf(0, members(4)), 1, false},
	} {
		tx := &client{tx: c.tx, digest: bft.TxDigest(c.tx)}
		w := &world{submitted: map[bft.Digest]*client{tx.digest: tx}, plan: plan{rivals: true}, configs: c.configs}
		entry := &bft.Entry{}
		entry.Add(tx.tx, tx.digest)
		w.applied(&node{w: w, id: 1}, 1, entry, bft.Digest{})
		if c.holds {
			require.NoError(t, w.err, name)
		} else {
			require.ErrorContains(t, w.err, "does not hold", name)
		}
		assert.Equal(t, c.holds, tx.done, name)
	}
}
