package etcdraft

import (
	"fmt"

	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
)

// coreFault is what the Raft core says as it ends: what the log has and what other members are sure that it has contradict
// each other. The disk was restored to an earlier state, or has lost what it said was durable; or, without TLS, messages of
// another group have come.
type coreFault string

// endByFault is deferred. It has the node end with an error for a fault. To go on would not be safe: a member that has
// forgotten what it acknowledged may elect a leader that never had it.
func endByFault(channel string, err *error) {
	switch fault := recover().(type) {
	case nil:
	case coreFault:
		*err = fmt.Errorf("raft of channel %s: this orderer's log lacks what others have counted it for (%s): %s", channel, fault, raftlog.Remedy)
	default:
		panic(fault)
	}
}
