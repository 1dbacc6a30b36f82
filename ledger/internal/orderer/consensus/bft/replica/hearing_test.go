package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/pbft"
)

// TestWhoHearsOnlyThoseWhoMayLieIsDeaf: one honest member is among f+1.
func TestWhoHearsOnlyThoseWhoMayLieIsDeaf(t *testing.T) {
	const patience = 6 * time.Second
	began := time.Now()
	for name, c := range map[string]struct {
		members int
		heard   map[bft.ID]time.Duration // after began
		asked   time.Duration
		deaf    bool
	}{
		"it has just begun":       {4, nil, patience - 1, false},
		"none was heard":          {4, nil, patience, true},
		"one may lie":             {4, map[bft.ID]time.Duration{2: patience}, patience, true},
		"two":                     {4, map[bft.ID]time.Duration{2: patience, 3: 1}, patience, false},
		"one of two is too old":   {4, map[bft.ID]time.Duration{2: patience, 3: 1}, patience + 1, true},
		"itself does not count":   {4, map[bft.ID]time.Duration{1: patience, 2: patience}, patience, true},
		"no member":               {4, map[bft.ID]time.Duration{2: patience, 9: patience}, patience, true},
		"two of seven":            {7, map[bft.ID]time.Duration{2: patience, 3: patience}, patience, true},
		"there are no others":     {1, nil, patience, false},
		"of two the other":        {2, map[bft.ID]time.Duration{2: patience}, patience, false},
		"of two the other is off": {2, nil, patience, true},
	} {
		t.Run(name, func(t *testing.T) {
			var g bft.Group
			for id := range bft.ID(c.members) {
				g.Members = append(g.Members, id+1)
			}
			h := newHearing(began)
			for id, at := range c.heard {
				h.note(id, began.Add(at))
			}
			assert.Equal(t, c.deaf, h.deaf(g, 1, began.Add(c.asked), patience))
			assert.False(t, h.deaf(g, 99, began.Add(c.asked), patience), "who is no member is told nothing")
		})
	}
}

// TestWhoFetchesIsNotDeaf: it may have to take over several epochs, in all of which the others are ahead.
func TestWhoFetchesIsNotDeaf(t *testing.T) {
	for fetching, leader := range map[bool]uint64{true: 2, false: 0} {
		n, _ := leaving()
		n.hearing = newHearing(time.Now().Add(-time.Hour))
		n.view.Store(&bft.View{Group: bft.Group{Members: []bft.ID{1, 2, 3, 4}}, Leader: 2, Active: true, Fetching: fetching})
		assert.Equal(t, leader, n.Leader())
	}
}

// TestWhoHearsOnlyOfALaterEpochIsDeaf: added again under another id while it was away, it hears all, and none hears it.
func TestWhoHearsOnlyOfALaterEpochIsDeaf(t *testing.T) {
	g := bft.Group{Epoch: 3, Members: []bft.ID{1, 2, 3, 4}}
	for name, c := range map[string]struct {
		message bft.Message
		deaf    bool
	}{
		"of this one":   {&pbft.Status{Epoch: 3}, false},
		"of an earlier": {&pbft.Prepare{Epoch: 2}, false},
		"of a later":    {&pbft.Commit{Epoch: 4}, true},
		"of none":       {&bft.Request{Txs: [][]byte{{1}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{host: &heard{}, hearing: newHearing(time.Now().Add(-time.Hour)), mail: newMailbox(), protocol: Protocol{Decode: pbft.Decode}}
			n.view.Store(&bft.View{Group: g})
			for _, from := range []uint64{2, 3} {
				n.settings.ID = from
				raw, err := proto.Marshal(n.payload(payloadCore, pbft.Encode(c.message)))
				require.NoError(t, err)
				require.NoError(t, n.Step(from, raw))
			}
			assert.Equal(t, c.deaf, n.hearing.deaf(g, 1, time.Now(), time.Hour))
		})
	}
}
