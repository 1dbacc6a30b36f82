package replica

import (
	"sync"
	"time"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// idle is how often a member that waits for nothing tells where it stands.
const idle = bft.IdleResends * resend

// patience is how long a replica may hear of too few members before it takes itself for one that no leader leads.
func patience(o *channelconfig.Orderer) time.Duration { return 3 * max(o.BFT.ViewChangeTimeout, idle) }

// hearing knows when each member was heard last in this replica's epoch, or in one before. One that was added again under
// another id hears the others of a later epoch; these refuse what it says under the id that it knows itself by.
type hearing struct {
	began time.Time
	mu    sync.Mutex
	last  map[bft.ID]time.Time
}

func newHearing(now time.Time) *hearing { return &hearing{began: now, last: map[bft.ID]time.Time{}} }

func (h *hearing) note(from bft.ID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[from] = now
}

// deaf reports whether for that long only so few of a group were heard by one of its members that all of them may lie: a
// liar may go on talking to one that the others have removed.
func (h *hearing) deaf(g bft.Group, own bft.ID, now time.Time, patience time.Duration) bool {
	if now.Sub(h.began) < patience || g.Index(own) < 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := 0
	for _, id := range g.Members {
		if at, has := h.last[id]; has && id != own && now.Sub(at) < patience {
			heard++
		}
	}
	return heard < min(g.Weak(), len(g.Members)-1)
}
