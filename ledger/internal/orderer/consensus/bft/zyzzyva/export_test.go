package zyzzyva

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// ScriptThatNotices names a script whose output is another; "": there is none.
func ScriptThatNotices(t *testing.T) string { return scripttest.ThatNotices(t, begin) }

// Places is how many transactions a core keeps the places of.
func (c *Core) Places() int { return len(c.places) }
