package scripttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// Trusting is an oracle that believes everything.
type Trusting struct{}

// Sign signs as replica 1.
func (Trusting) Sign(data []byte) []byte { return Sign(1, data) }

// Verify implements bft.Oracle; so do those below.
func (Trusting) Verify(bft.ID, []byte, []byte) bool { return true }
func (Trusting) Check([]byte) (config, ok bool)     { return false, true }
func (Trusting) Mark([]byte) bool                   { return false }
func (Trusting) Known(bft.Digest) bool              { return false }

// Rationed is a replica from which others want entries.
type Rationed struct {
	// New starts the leader of four, whose entries hold one transaction each, with a window of eight.
	New func(bft.Oracle) bft.Core
	// Resend is the time that a ration is for.
	Resend time.Duration
	// Status is of one in the first view that has nothing yet.
	Status bft.Message
	// Carries reports whether a message has an entry in it.
	Carries func(bft.Message) bool
}

// Test checks that entries are rationed, whether they are asked for by name or by a status: a liar would have a replica fill
// its memory with answers.
func (r Rationed) Test(t *testing.T) {
	core := r.New(Trusting{})
	tx := make([]byte, 10<<20)
	for i := range 4 {
		tx = append([]byte{byte(i)}, tx...)
		core.Step(1, bft.Submit{Tx: tx})
	}
	given := func(now bft.Time, from bft.ID, m bft.Message) (entries int) {
		for _, out := range core.Step(now, bft.Received{From: from, Message: m}).Send {
			if r.Carries(out.Message) {
				require.Equal(t, from, out.To)
				entries++
			}
		}
		return entries
	}
	want := &bft.Want{Seq: 4, Digest: (&bft.Entry{Txs: [][]byte{tx}}).Digest()}
	for i, entries := range []int{1, 1, 0, 0} {
		assert.Equal(t, entries, given(1, 2, want), i)
	}
	assert.Equal(t, 0, given(1, 2, r.Status))
	assert.Equal(t, 2, given(1, 3, r.Status), "of the four that it lacks")
	assert.Equal(t, 0, given(1, 3, want))
	assert.Equal(t, 1, given(1+r.Resend, 2, want))
	assert.Equal(t, 1, given(1+r.Resend, 2, r.Status))
}
