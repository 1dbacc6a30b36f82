package etcdraft

import (
	"fmt"
	"strings"

	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
)

// coreFault is what the Raft core says as it ends.
type coreFault string

// endByFault is deferred. It has the node end with an error for a fault. To go on would not be safe: a member that has
// forgotten what it acknowledged may elect a leader that never had it.
func endByFault(channel string, err *error) {
	switch fault := recover().(type) {
	case nil:
	case coreFault:
		if !fault.lacks() {
			*err = fmt.Errorf("raft of channel %s: %s", channel, fault)
			return
		}
		*err = fmt.Errorf("raft of channel %s: this orderer's log lacks what others have counted it for (%s): %s", channel, fault, raftlog.Remedy)
	default:
		panic(fault)
	}
}

// lacks reports whether the log lacks what other members, or this one's own last state, are sure that it has. The disk was
// restored to an earlier state, or has lost what it said was durable; or, without TLS, messages of another group have come.
// The core has only words for it.
func (f coreFault) lacks() bool {
	return strings.HasPrefix(string(f), "tocommit(") || strings.Contains(string(f), " state.commit ")
}
