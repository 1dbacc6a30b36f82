package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// halfFull orders half of what may be left to do with each message.
type halfFull struct {
	bft.Core
	entry *bft.Entry
	took  chan bft.Input
}

func (h *halfFull) Step(_ bft.Time, in bft.Input) (e bft.Effects) {
	if _, is := in.(bft.Received); is {
		e.Apply = []bft.Ordered{{Entry: h.entry}}
	}
	h.took <- in
	return e
}

func (h *halfFull) View() bft.View { return bft.View{Group: bft.Group{Members: []bft.ID{1, 2, 3, 4}}} }

// TestAReplicaThatIsTooSlowHearsNobody, so that what the others go on to order does not fill its memory. What its own ledger
// says is heard.
func TestAReplicaThatIsTooSlowHearsNobody(t *testing.T) {
	settings := consensus.Settings{ID: 1, Bundle: func() *channelconfig.Bundle { return &channelconfig.Bundle{} }}
	core := &halfFull{entry: &bft.Entry{Txs: [][]byte{make([]byte, mostBacklog/2)}}, took: make(chan bft.Input, 9)}
	n := &Node{
		settings: settings, core: core, oracle: newOracle(settings, nil), clients: newClients(), intake: consensus.NewIntake(),
		mail: newMailbox(), backlog: newBacklog(), inputs: make(chan news), disk: newQueue[bft.Effects](), work: newQueue[work](),
	}
	n.hearing = newHearing(n.began)
	n.view.Store(&bft.View{})
	var err error
	n.deadline, err = newDeadline()
	require.NoError(t, err)
	defer n.deadline.close()
	for i := range 5 {
		n.mail.put(2, 1, numbered(i))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.step(ctx) }()
	message := func(i int) bft.Input { return bft.Received{From: 2, Message: numbered(i)} }
	for _, in := range []bft.Input{bft.Tick{}, message(0), message(1), message(2)} {
		assert.Equal(t, in, <-core.took)
	}
	for seq := range uint64(3) {
		n.inputs <- news{in: bft.Synced{Seq: seq}}
		assert.Equal(t, bft.Synced{Seq: seq}, <-core.took)
	}
	n.backlog.done(core.entry.Size())
	assert.Equal(t, message(3), <-core.took)
	n.inputs <- news{in: bft.Tick{}}
	assert.Equal(t, bft.Tick{}, <-core.took)
	assert.Equal(t, 1, n.mail.len())
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
