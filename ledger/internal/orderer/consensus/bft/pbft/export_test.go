package pbft

import (
	"testing"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/scripttest"
)

// ScriptThatNotices names a script whose output is another; "": there is none.
func ScriptThatNotices(t *testing.T) string { return scripttest.ThatNotices(t, begin) }
