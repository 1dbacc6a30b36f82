package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// TestOneThatIsRemovedStaysForAsLongAsItIsAsked: its vote may be the one that the others need to go on without it. A liar
// may ask for ever.
func TestOneThatIsRemovedStaysForAsLongAsItIsAsked(t *testing.T) {
	o := channelconfig.Orderer{}
	o.BFT.ViewChangeTimeout = 5 * time.Second
	settings := consensus.Settings{Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{Orderer: o} }}
	removed := time.Now()
	n := &Node{settings: settings, hearing: newHearing(removed)}
	n.hearing.note(2, removed.Add(-1)) // an hour ago, or just now: others have yet to see that nobody answers
	require.NoError(t, n.takeLeave(removed))
	require.NoError(t, n.takeLeave(removed.Add(quiet-2)))
	n.hearing.note(3, removed.Add(quiet-2))
	require.NoError(t, n.takeLeave(removed.Add(quiet)))
	require.NoError(t, n.takeLeave(removed.Add(2*quiet-3)))
	assert.ErrorIs(t, n.takeLeave(removed.Add(2*quiet-2)), consensus.ErrRemoved)

	for after := quiet; after < patience(&o); after += quiet / 2 {
		n.hearing.note(2, removed.Add(after))
		require.NoError(t, n.takeLeave(removed.Add(after)))
	}
	n.hearing.note(2, removed.Add(patience(&o)))
	assert.ErrorIs(t, n.takeLeave(removed.Add(patience(&o))), consensus.ErrRemoved)
}
