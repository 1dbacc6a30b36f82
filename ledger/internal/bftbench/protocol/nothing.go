package protocol

import (
	"errors"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

// nothing orders what the first replica is given, without a word to the others: the most that clients, links and execution
// allow.
type nothing struct {
	group bft.Group
	next  uint64
}

// errSilent is what reading a message of a protocol without messages gives.
var errSilent = errors.New("this protocol has no messages")

// Step implements bft.Core.
func (n *nothing) Step(_ bft.Time, in bft.Input) (e bft.Effects) {
	if submitted, is := in.(bft.Submit); is {
		n.next++
		e.Apply = []bft.Ordered{{Seq: n.next, Entry: &bft.Entry{Txs: [][]byte{submitted.Tx}}}}
	}
	return e
}

// Records implements bft.Core.
func (*nothing) Records() []bft.Record { return nil }

// View implements bft.Core.
func (n *nothing) View() bft.View {
	return bft.View{Group: n.group, Leader: n.group.Leader(0), Active: true, Applied: n.next, Last: n.next}
}
