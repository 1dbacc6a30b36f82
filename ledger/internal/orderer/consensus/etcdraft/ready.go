package etcdraft

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// handleReady does what the Raft core asks for until it asks for nothing more, and proposes a configuration
// that has waited for that.
func (n *Node) handleReady(ctx context.Context) error {
	for n.raft.HasReady() || n.proposeConfig() && n.raft.HasReady() {
		rd := n.raft.Ready()
		if rd.SoftState != nil {
			n.noteLeader(rd.SoftState.Lead)
		}
		// A leader's messages may leave before its own fsync: it counts itself only
		// after it (Raft thesis, 10.2.1). Everybody else promises something with them.
		leads := n.leads()
		if leads {
			n.outbox.send(rd.Messages)
			if last := len(rd.Entries); last > 0 {
				n.proposed = rd.Entries[last-1].GetIndex()
				n.outbox.pacer.appended(n.proposed, time.Now())
				letSend()
			}
		}
		if err := n.save(ctx, rd); err != nil {
			return err
		}
		if !leads {
			n.outbox.send(rd.Messages)
		}
		for _, e := range rd.CommittedEntries {
			if err := n.apply(e); err != nil {
				return err
			}
		}
		if len(rd.CommittedEntries) > 0 {
			n.outbox.pacer.applied(n.applied, time.Now())
		}
		n.raft.Advance(rd)
		if n.sinceSnapshot >= n.cfg.SnapshotInterval {
			n.beginSnapshot()
		}
		n.armTimer()
	}
	return nil
}

// letSend lets those run who write messages to connections. They only take moments, whereas the system call that
// syncs the log may keep this process's only thread until it returns: the followers' syncs would begin after ours, not
// beside it. Twice, because gRPC's own writer steps back once for more to come.
func letSend() {
	runtime.Gosched()
	runtime.Gosched()
}

// save makes durable what must be. A snapshot goes first: the state that follows
// in the log is meaningless without it.
func (n *Node) save(ctx context.Context, rd raft.Ready) error {
	fresh := !raft.IsEmptySnap(rd.Snapshot)
	if fresh {
		if err := n.log.SaveSnapshot(rd.Snapshot); err != nil {
			return err
		}
	}
	if err := n.log.Save(rd.HardState, rd.Entries); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	// Without the commit index a snapshot does not count when the log is opened again, and Save syncs none.
	if err := n.log.Sync(); err != nil {
		return err
	}
	height, err := raftlog.Height(rd.Snapshot)
	if err != nil {
		return err
	}
	index := rd.Snapshot.GetMetadata().GetIndex()
	log.Infof("[channel: %s] Taking snapshot at index %d, catching up to %d blocks", n.cfg.Channel, index, height)
	if err := n.sm.CatchUp(ctx, height); err != nil {
		return err
	}
	n.applied = index
	return nil
}

func (n *Node) apply(e *raftpb.Entry) error {
	if e.GetType() == raftpb.EntryConfChange {
		return n.applyMembership(e)
	}
	// A new leader begins with an empty entry.
	if e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
		var entry streampb.LogEntry
		if err := protoutil.Unmarshal(e.Data, &entry); err != nil {
			return fmt.Errorf("log entry %d: %w", e.GetIndex(), err)
		}
		if err := n.sm.Apply(e.GetIndex(), &entry); err != nil {
			return fmt.Errorf("log entry %d: %w", e.GetIndex(), err)
		}
		n.sinceSnapshot += len(e.Data)
	}
	n.applied = e.GetIndex()
	return nil
}

func (n *Node) noteLeader(leader uint64) {
	before := n.leader.Swap(leader)
	if before == leader {
		return
	}
	log.Infof("Raft leader changed: %d -> %d channel=%s node=%d", before, leader, n.cfg.Channel, n.cfg.ID)
	n.proposed, n.timed, n.elected = 0, 0, n.ticks
	for _, p := range []*Proposal{n.config, n.unheard} {
		if p != nil {
			p.Fail(consensus.ErrNotLeader)
		}
	}
	n.config, n.unheard = nil, nil
	n.outbox.newTerm()
	n.sm.LeaderChanged(before, leader)
}

// armTimer lets a leader end the open block in time. The time counts from when the
// block's first transaction was applied here.
func (n *Node) armTimer() {
	number, txs := n.sm.Open()
	switch {
	case !n.leads() || txs == 0:
		n.timer.Stop()
		n.timed = 0
	case n.timed != number:
		n.timer.Reset(n.cfg.CutInterval())
		n.timed = number
	}
}

// syncDone is the end of a ledger sync: what a snapshot may now stand for.
type syncDone struct {
	index, height uint64
	err           error
}

// beginSnapshot syncs the ledger off this goroutine: megabytes may be waiting. The
// snapshot is the last entry of which everything is in sealed blocks.
func (n *Node) beginSnapshot() {
	at := n.sm.Applied()
	if n.syncing || at.Index <= 1 {
		return
	}
	n.syncing, n.sinceSnapshot = true, 0
	done := syncDone{index: at.Index - 1, height: n.sm.Height()}
	go func() {
		done.err = n.sm.Sync()
		n.synced <- done
	}()
}

func (n *Node) compact(done syncDone) error {
	n.syncing = false
	if done.err != nil {
		return done.err
	}
	previous, err := n.log.Memory.Snapshot()
	if err != nil || done.index <= previous.GetMetadata().GetIndex() {
		return err
	}
	log.Infof("[channel: %s] Snapshot at index %d for %d blocks", n.cfg.Channel, done.index, done.height)
	return n.log.Compact(done.index, done.height, nil)
}

// raftLogger gives Raft's own words to our log: what it tells about elections at
// debug level, trouble as it is.
type raftLogger struct{ channel string }

func (l raftLogger) at(level ops.Level, format string, args ...any) {
	log.Log(2, level, "[channel: "+l.channel+"] "+format, args...)
}

func (l raftLogger) Debug(v ...any)                   { l.at(ops.Debug, "%s", fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.at(ops.Debug, format, v...) }
func (l raftLogger) Info(v ...any)                    { l.at(ops.Debug, "%s", fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)    { l.at(ops.Debug, format, v...) }
func (l raftLogger) Warning(v ...any)                 { l.at(ops.Warn, "%s", fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.at(ops.Warn, format, v...) }
func (l raftLogger) Error(v ...any)                   { l.at(ops.Error, "%s", fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.at(ops.Error, format, v...) }
func (l raftLogger) Fatal(v ...any)                   { log.Panicf("%s", fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any)   { log.Panicf(format, v...) }
func (l raftLogger) Panic(v ...any)                   { log.Panicf("%s", fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any)   { log.Panicf(format, v...) }
