package replica

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

func leaving() (*Node, time.Duration) {
	o := channelconfig.Orderer{}
	o.BFT.ViewChangeTimeout = 5 * time.Second
	bundle := &channelconfig.Bundle{Orderer: o}
	return &Node{settings: consensus.Settings{ID: 4, Bundle: func() *channelconfig.Bundle { return bundle }}}, patience(&o)
}

// TestOneThatIsRemovedStaysForAsLongAsItIsAsked: its vote may be the one that the others need to go on without it. A liar
// may ask for ever.
func TestOneThatIsRemovedStaysForAsLongAsItIsAsked(t *testing.T) {
	const removed = time.Minute
	n, most := leaving()
	v := &bft.View{Group: bft.Group{Epoch: 7}, Applied: 7, Asked: removed - time.Second}
	require.NoError(t, n.takeLeave(v, removed))
	require.NoError(t, n.takeLeave(v, removed+unasked-1))
	v.Asked = removed + unasked - 1
	require.NoError(t, n.takeLeave(v, v.Asked+unasked-1))
	require.ErrorIs(t, n.takeLeave(v, v.Asked+unasked), consensus.ErrRemoved)
	v.Asked = removed + most - 1
	require.NoError(t, n.takeLeave(v, v.Asked))
	assert.ErrorIs(t, n.takeLeave(v, v.Asked+1), consensus.ErrRemoved)
}

// TestOneThatWasAwayLeavesAtOnce: its epoch has ended by others' votes.
func TestOneThatWasAwayLeavesAtOnce(t *testing.T) {
	n, _ := leaving()
	v := &bft.View{Group: bft.Group{Epoch: 7}, Applied: 6}
	assert.ErrorIs(t, n.takeLeave(v, time.Minute), consensus.ErrRemoved)
}

// TestOneThatWasRemovedInAnEarlierRunLeavesAtOnce: its votes knew that already when it ended, and its ledger did not. It
// fetches nothing, since the epoch that it would fetch for has it as no member.
func TestOneThatWasRemovedInAnEarlierRunLeavesAtOnce(t *testing.T) {
	n, _ := leaving()
	n.core, n.oracle, n.clients = away{}, newOracle(n.settings, nil), newClients()
	n.disk, n.work = newQueue[bft.Effects](), newQueue[work]()
	n.hearing = newHearing(time.Now())
	n.view.Store(&bft.View{})
	assert.Nil(t, n.take(bft.Tick{}).Fetch)
	assert.ErrorIs(t, n.publish(), consensus.ErrRemoved)
}

// away is a core whose replica was removed while it was away.
type away struct{ bft.Core }

func (away) Step(bft.Time, bft.Input) bft.Effects { return bft.Effects{Fetch: &bft.Fetch{}} }

func (away) View() bft.View {
	return bft.View{Group: bft.Group{Epoch: 7, Members: []bft.ID{1, 2, 3}}, Applied: 6}
}

// removing is a core whose replica is a member until its first message. Each step would have it fetch.
type removing struct {
	bft.Core
	took    chan bft.Input
	removed bool
}

func (r *removing) Step(_ bft.Time, in bft.Input) bft.Effects {
	_, is := in.(bft.Received)
	r.removed = r.removed || is
	r.took <- in
	return bft.Effects{Fetch: &bft.Fetch{}}
}

func (r *removing) View() bft.View {
	if r.removed {
		return bft.View{Group: bft.Group{Epoch: 7, Members: []bft.ID{1, 2, 3}}, Applied: 7}
	}
	return bft.View{Group: bft.Group{Members: []bft.ID{1, 2, 3, 4}}}
}

// TestOneThatIsRemovedAnswersAndDoesNothingElse: it fetches no blocks, of which a later one may make it a member again, and
// has others hand on what its clients ask for.
func TestOneThatIsRemovedAnswersAndDoesNothingElse(t *testing.T) {
	n, _ := leaving()
	core := &removing{took: make(chan bft.Input)}
	n.core, n.oracle, n.clients, n.intake = core, newOracle(n.settings, nil), newClients(), consensus.NewIntake()
	n.mail, n.inputs, n.disk, n.work = newMailbox(), make(chan news), newQueue[bft.Effects](), newQueue[work]()
	n.began = time.Now()
	n.hearing = newHearing(n.began)
	n.view.Store(&bft.View{})
	var err error
	n.deadline, err = newDeadline()
	require.NoError(t, err)
	defer n.deadline.close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.step(ctx) }()
	for _, in := range []bft.Input{bft.Tick{}, bft.Received{From: 2, Message: letter("x")}, bft.Received{From: 3, Message: letter("y")}} {
		if m, is := in.(bft.Received); is {
			n.mail.put(m.From, 1, m.Message)
		}
		assert.Equal(t, in, <-core.took)
	}
	n.inputs <- news{in: bft.Tick{}} // the step before is over
	assert.Equal(t, bft.Tick{}, <-core.took)
	assert.ErrorIs(t, n.Submit(consensus.Proposal{Tx: []byte("tx")}), consensus.ErrNotLeader)
	assert.EqualValues(t, 7, n.oracle.epoch.Load())
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	assert.Len(t, n.disk.take(), 1, "the first step's alone, when it was a member")
}
