package base_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/base"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pool"
)

// ledger knows the transactions that it has.
type ledger struct {
	bft.Oracle
	has map[bft.Digest]bool
}

func (l ledger) Known(tx bft.Digest) bool { return l.has[tx] }

func (ledger) Mark(tx []byte) bool { return tx[0] == '|' }

// TestAnOlderFetch than the newest brings all of its state but the place from which this replica applies.
func TestAnOlderFetch(t *testing.T) {
	digest := func(tx string) bft.Digest { return bft.TxDigest([]byte(tx)) }
	l := ledger{has: map[bft.Digest]bool{digest("fetched"): true}}
	pending := pool.New(pool.Limits{ID: 1, BatchTxs: 9, BatchBytes: 99, Txs: 9, Bytes: 99}, l)
	r := &base.Replica[bft.Certificate]{Oracle: l, Pending: pending, Renew: func() (limits base.Limits) { return }}
	r.Fetching, r.Applied, r.Here = 16, 4, 4
	for _, tx := range []string{"fetched", "|past", "waits"} {
		assert.True(t, r.Pending.Add(&pool.Item{Tx: []byte(tx), Digest: digest(tx), From: 1}))
	}
	assert.False(t, r.Took(bft.Fetched{Seq: 8, Past: []bft.Digest{digest("|past")}}))
	assert.EqualValues(t, 16, r.Fetching)
	assert.EqualValues(t, 4, r.Applied)
	assert.EqualValues(t, 8, r.Here)
	assert.Equal(t, 1, r.Pending.Len())
	assert.True(t, r.Pending.Has(digest("waits")))

	assert.True(t, r.Took(bft.Fetched{Seq: 16}))
	assert.Zero(t, r.Fetching)
	assert.EqualValues(t, 16, r.Applied)
	assert.EqualValues(t, 16, r.Here)
}

// TestTheLeaderHasAsLongAsTheConfigurationInForceSays, from when it is in force.
func TestTheLeaderHasAsLongAsTheConfigurationInForceSays(t *testing.T) {
	r := &base.Replica[bft.Certificate]{Pending: pool.New(pool.Limits{ID: 1}, ledger{})}
	r.Renew = func() base.Limits { return base.Limits{Timeout: 2, MaxTimeout: 3} }
	r.Suspect.First, r.Suspect.Most = 8, 9
	r.Start.Seq = 4
	r.Recheck()
	assert.EqualValues(t, 8, r.Suspect.Patience())
	r.Here = 4
	r.Recheck()
	assert.EqualValues(t, 2, r.Suspect.Patience())
	r.Suspect.GaveUp()
	assert.EqualValues(t, 3, r.Suspect.Patience())
}

// TestAReplicaAsksForWhatItHasRefused as soon as its configuration is in force: under the one before it could not tell what the
// leader may propose.
func TestAReplicaAsksForWhatItHasRefused(t *testing.T) {
	r := &base.Replica[bft.Certificate]{Pending: pool.New(pool.Limits{ID: 1}, ledger{}), Renew: func() (limits base.Limits) { return }}
	r.Applied, r.Start.Seq, r.Now, r.StatusAt = 4, 4, 1, 9
	r.Recheck()
	assert.EqualValues(t, 9, r.StatusAt)
	r.Durable(bft.Synced{Seq: 4})
	assert.EqualValues(t, 1, r.StatusAt)
}
