package orderer

import (
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/orderer/cluster"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/ordererpb"
)

// TestWhoHasGivenUpTakesNobodysAnswer: a client that sends its transaction again waits for the new copy.
func TestWhoHasGivenUpTakesNobodysAnswer(t *testing.T) {
	tx := []byte("tx")
	for givesUp := range 3 {
		waiting := newTracker(false)
		var all []*waiter
		for range 3 {
			all = append(all, waiting.add(tx))
		}
		waiting.forget(all[givesUp])
		waiting.forget(all[givesUp])
		waiting.ordered([][]byte{tx, tx})
		for i, w := range all {
			assert.Len(t, w.result, map[bool]int{false: 1, true: 0}[i == givesUp])
		}
		assert.Zero(t, waiting.count())
	}
}

// refusing is a consenter that takes as many transactions as it has places.
type refusing struct {
	consensus.Consenter
	places int
	taken  []consensus.Proposal
}

func (r *refusing) Submit(p consensus.Proposal) error {
	if len(r.taken) == r.places {
		return consensus.ErrOverload
	}
	r.taken = append(r.taken, p)
	return nil
}

// TestACopyThatIsRefusedSaysNothingOfTheOthers: who sent one that is taken is not told that it is not, at once or later.
func TestACopyThatIsRefusedSaysNothingOfTheOthers(t *testing.T) {
	raw := []byte("tx")
	part := &refusing{places: 3}
	c := &channel{name: ch, waiting: newTracker(false), owner: &Node{maxMessage: 1 << 30}}
	c.taking.Store(&membership{part, nil})
	var all []*waiter
	for range 4 {
		all = append(all, c.submit(nil, raw, 0))
	}
	require.Len(t, all[3].result, 1)
	require.ErrorIs(t, <-all[3].result, consensus.ErrOverload)
	part.taken[2].Settle(consensus.ErrNotLeader)
	require.Len(t, all[2].result, 1)
	require.ErrorIs(t, <-all[2].result, consensus.ErrNotLeader)
	all[1].giveUp()
	part.taken[1].Settle(consensus.ErrNotLeader)
	require.Empty(t, all[0].result)
	c.waiting.ordered([][]byte{raw})
	require.Len(t, all[0].result, 1)
	assert.NoError(t, <-all[0].result)
}

// TestACopyThatIsRefusedLate: the first client that waits for some bytes is answered when a copy of them is ordered, whoever's it
// was. So the client of the ordered copy may still wait when the first one's copy is refused, and is answered then. A client that
// was told that the leader changed has not been answered in another's place.
func TestACopyThatIsRefusedLate(t *testing.T) {
	raw := []byte("tx")
	part := &refusing{places: 4}
	c := &channel{name: ch, waiting: newTracker(false), owner: &Node{maxMessage: 1 << 30}}
	c.taking.Store(&membership{part, nil})
	first, second := c.submit(nil, raw, 0), c.submit(nil, raw, 0)
	c.waiting.ordered([][]byte{raw})
	require.Len(t, first.result, 1)
	require.NoError(t, <-first.result)
	require.Empty(t, second.result)
	part.taken[0].Settle(consensus.ErrNotLeader)
	require.Len(t, second.result, 1)
	require.NoError(t, <-second.result)
	assert.Zero(t, c.waiting.count())

	third := c.submit(nil, raw, 0)
	c.waiting.refuseAll(errLeaderChanged)
	require.ErrorIs(t, <-third.result, errLeaderChanged)
	fourth := c.submit(nil, raw, 0)
	part.taken[2].Settle(consensus.ErrNotLeader)
	assert.Empty(t, fourth.result)
}

// TestAWaitForTheOrderEnds also where the transaction was lost, and whoever waited takes no answer of the client's next copy.
func TestAWaitForTheOrderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := &channel{waiting: newTracker(false)}
		w := ch.waiting.add([]byte("tx"))
		w.channel, w.checked = ch, time.Now()
		require.ErrorIs(t, w.wait(t.Context()), errTimeout)
		assert.Zero(t, ch.waiting.count())
	})
}

// TestWhoCameTogetherWaitsNoLongerThanOne: a stream's waiters are asked one after the other.
func TestWhoCameTogetherWaitsNoLongerThanOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := &channel{waiting: newTracker(false)}
		began := time.Now()
		var all []*waiter
		for _, tx := range []string{"one", "two", "three"} {
			w := ch.waiting.add([]byte(tx))
			w.channel, w.checked = ch, began
			all = append(all, w)
		}
		for _, w := range all {
			require.ErrorIs(t, w.wait(t.Context()), errTimeout)
			assert.Equal(t, orderingTimeout, time.Since(began))
		}
		assert.Zero(t, ch.waiting.count())
	})
}

// TestOneOrderedAnswersAsManyAsItIsFor: all who wait for it where copies are dropped, or else one.
func TestOneOrderedAnswersAsManyAsItIsFor(t *testing.T) {
	tx, other := []byte("tx"), []byte("other")
	for once, answered := range map[bool]int{false: 1, true: 3} {
		waiting := newTracker(once)
		var all []*waiter
		for range 3 {
			all = append(all, waiting.add(tx))
		}
		strange := waiting.add(other)
		waiting.ordered([][]byte{tx})
		for i, w := range all {
			require.Len(t, w.result, map[bool]int{true: 1}[i < answered], "once: %t, waiter %d", once, i)
			if i < answered {
				require.NoError(t, <-w.result)
			}
		}
		assert.Empty(t, strange.result)
	}
}

// TestWhoAsksTheLeaderAtOnceIsNotRefused: a transaction may reach a leader before the clients' side of its orderer has
// heard of the election; to say that it may be lost would have it sent, and ordered, twice.
func TestWhoAsksTheLeaderAtOnceIsNotRefused(t *testing.T) {
	c := &channel{name: ch, waiting: newTracker(false), metrics: newMetrics(prometheus.NewRegistry())}
	c.group.Store(&group{id: 1})
	w := c.waiting.add([]byte("tx"))
	c.LeaderChanged(0, 1)
	assert.Empty(t, w.result)
	c.LeaderChanged(1, 2)
	assert.ErrorIs(t, <-w.result, errLeaderChanged)
}

// TestALeadersPressureIsPassedOn in the words by which gateways know it.
func TestALeadersPressureIsPassedOn(t *testing.T) {
	for said, want := range map[error]string{
		consensus.ErrOverload:  consensus.ErrOverload.Error(),
		consensus.ErrNotLeader: "the leader refused: " + consensus.ErrNotLeader.Error(),
	} {
		ch := &channel{waiting: newTracker(false)}
		w := ch.waiting.add([]byte("tx"))
		ch.refusedByLeader(&ordererpb.SubmitResponse{Status: statusOf(said), Info: hex.EncodeToString(w.key[:]) + " " + said.Error()})
		err := <-w.result
		require.EqualError(t, err, want)
		assert.Equal(t, commonpb.Status_SERVICE_UNAVAILABLE, statusOf(err))
	}
	assert.ErrorIs(t, consensus.ErrOverload, protoutil.ErrExhausted)
	assert.Equal(t, "RESOURCE_EXHAUSTED: too many transactions wait to be ordered", consensus.ErrOverload.Error())
	assert.ErrorIs(t, cluster.ErrOverload, protoutil.ErrExhausted)
	assert.Equal(t, "RESOURCE_EXHAUSTED: too many transactions wait to be handed to the leader", cluster.ErrOverload.Error())
}
