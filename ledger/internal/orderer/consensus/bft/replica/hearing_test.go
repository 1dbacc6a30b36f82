package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
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
