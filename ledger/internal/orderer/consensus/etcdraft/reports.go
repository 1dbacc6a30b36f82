package etcdraft

import (
	"slices"
	"sync"

	"go.etcd.io/raft/v3"
)

// report is what became of messages to another member: a snapshot has left or is lost, or else any are being lost.
type report struct {
	to       uint64
	snapshot bool
	ok       bool
}

// reports keeps what the run goroutine has to hear, each once: Raft sends a follower nothing between a snapshot and the
// report of it. Three of each member are the most.
type reports struct {
	filled chan struct{} // filled has a value at least while anything waits

	mu    sync.Mutex
	waits []report
}

func newReports() *reports { return &reports{filled: make(chan struct{}, 1)} }

// put never waits. Any goroutine may call it.
func (r *reports) put(one report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.waits, one) {
		return
	}
	r.waits = append(r.waits, one)
	select {
	case r.filled <- struct{}{}:
	default:
	}
}

// take gives all that waits.
func (r *reports) take() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waits
	r.waits = nil
	return all
}

func (n *Node) stepReports() {
	for _, r := range n.reports.take() {
		n.stepReport(r)
	}
}

func (n *Node) stepReport(r report) {
	switch {
	case !r.snapshot:
		delete(n.roll.heard, r.to)
		n.outbox.unreachable(r.to)
		n.raft.ReportUnreachable(r.to)
	case r.ok:
		n.raft.ReportSnapshot(r.to, raft.SnapshotFinish)
	default:
		n.raft.ReportSnapshot(r.to, raft.SnapshotFailure)
	}
}
