package replica

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/bftbench/plan"
	"github.com/qioi/qioi/ledger/internal/bftbench/ycsb"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// counted counts verifications.
type counted struct {
	auth.Authenticator
	verifications int
}

func (c *counted) VerifyBroadcast(from auth.Party, data, tag []byte) bool {
	c.verifications++
	return c.Authenticator.VerifyBroadcast(from, data, tag)
}

func TestABatchIsVerifiedOnce(t *testing.T) {
	keys, err := auth.NewKeys(auth.ED25519, 4, 1)
	require.NoError(t, err)
	client, err := auth.New(keys, auth.Machine(0))
	require.NoError(t, err)
	suite, err := auth.New(keys, 2)
	require.NoError(t, err)
	count := &counted{Authenticator: suite.Requests}
	suite.Requests = count
	r := &Replica{suite: suite}
	load := plan.Default().Load
	source := ycsb.NewSource(load, load.Law(), 1)
	batch := func(signer auth.Authenticator, number uint64) []byte {
		w := &bft.Writer{}
		source.Append(w, signer, 1, number)
		return ycsb.Batch([]ycsb.Signed{ycsb.ReadSigned(bft.NewReader(w.Bytes))}, number)
	}
	good := batch(client.Requests, 1)
	assert.True(t, r.good(good))
	assert.True(t, r.good(append([]byte(nil), good...)))
	assert.Equal(t, 1, count.verifications)
	forged := batch(suite.Requests, 2)
	assert.False(t, r.good(forged))
	assert.False(t, r.good(forged), "what was refused is looked at again")
	assert.Equal(t, 3, count.verifications)
}

func TestTheNewestBatchesAreRemembered(t *testing.T) {
	var v verified
	name := func(i int) bft.Digest { return bft.TxDigest([]byte{byte(i), byte(i >> 8)}) }
	for i := range 3 * remembered {
		assert.False(t, v.has(name(i)))
		v.add(name(i))
		assert.True(t, v.has(name(max(0, i-remembered+1))))
	}
	assert.LessOrEqual(t, len(v.now)+len(v.before), 2*remembered)
	assert.False(t, v.has(name(0)))
}
