package zyzzyva

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// ScriptThatNotices names a script whose output is another; "": there is none.
func ScriptThatNotices(t *testing.T) string { return scripttest.ThatNotices(t, begin) }

// Places is how many transactions a core keeps the places of.
func (c *Core) Places() int { return len(c.places) }

// Promised is what a replica would say that it has accepted, if it left its view; whole: nothing is missing of that.
func (c *Core) Promised() (m *ViewChange, whole bool) {
	m = c.viewChange()
	return m, c.Active && c.Fetching == 0 && c.Last >= c.Stable.Seq && m.last() == c.Last
}
