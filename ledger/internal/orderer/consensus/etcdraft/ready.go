package etcdraft

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/wire"
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
		n.replicating.committed(rd.CommittedEntries)
		// A leader's messages may leave before its own fsync: it counts itself only
		// after it (Raft thesis, 10.2.1). Everybody else promises something with them.
		leads := n.leads()
		if leads {
			n.outbox.send(rd.Messages)
			if last := len(rd.Entries); last > 0 {
				n.replicating.appended(rd.Entries)
				first := n.proposed == 0
				if n.proposed = rd.Entries[last-1].GetIndex(); first {
					n.configs.behind = n.proposed
				}
				n.outbox.pacer.Appended(n.proposed, time.Now())
				wire.LetSend() // the followers' syncs begin beside this one, not after it
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
			n.outbox.pacer.Applied(n.applied, time.Now())
		}
		n.raft.Advance(rd)
		n.beginSnapshot()
		n.watchBlock()
	}
	return nil
}

// save makes durable what must be. A snapshot goes first, with its state: the entries that follow in the log are
// meaningless without it.
func (n *Node) save(ctx context.Context, rd raft.Ready) error {
	fresh := !raft.IsEmptySnap(rd.Snapshot)
	if fresh {
		if err := n.log.SaveSnapshot(rd.Snapshot, rd.HardState); err != nil {
			return err
		}
	}
	if err := n.log.Save(rd.HardState, rd.Entries); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	height, err := raftlog.Height(rd.Snapshot)
	if err != nil {
		return err
	}
	index := rd.Snapshot.GetMetadata().GetIndex()
	log.Infof("[channel: %s] Taking snapshot at index %d, catching up to %d blocks", n.cfg.Channel, index, height)
	if err := n.host.CatchUp(ctx, height); err != nil {
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
		if err := n.host.Apply(e.GetIndex(), &entry); err != nil {
			return fmt.Errorf("log entry %d: %w", e.GetIndex(), err)
		}
		n.syncer.Applied(len(e.Data))
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
	n.proposed, n.roll.elected = 0, n.roll.ticks
	n.block.Stop()
	n.configs.refuse(consensus.ErrNotLeader)
	n.outbox.newTerm()
	n.replicating.deposed()
	n.host.LeaderChanged(before, leader)
}

// watchBlock lets a leader end the open block in time.
func (n *Node) watchBlock() {
	number, txs := n.host.Open()
	if !n.leads() {
		txs = 0
	}
	n.block.Watch(number, txs)
}

// place is what a snapshot stands for: the log up to index is in the first height blocks.
type place struct{ index, height uint64 }

// beginSnapshot begins to make the ledger durable if it is time for a snapshot. The snapshot is the last entry of which
// everything is in sealed blocks.
func (n *Node) beginSnapshot() {
	if at := n.host.Applied(); n.syncer.Due() && at.Index > 1 {
		n.snapshot = place{index: at.Index - 1, height: n.host.Height()}
		n.syncer.Begin()
	}
}

// compact has the log forget what is durable in the ledger; synced is how its sync ended.
func (n *Node) compact(synced error) error {
	if synced != nil {
		return synced
	}
	previous, err := n.log.Memory.Snapshot()
	if err != nil || n.snapshot.index <= previous.GetMetadata().GetIndex() {
		return err
	}
	log.Infof("[channel: %s] Snapshot at index %d for %d blocks", n.cfg.Channel, n.snapshot.index, n.snapshot.height)
	return n.log.Compact(n.snapshot.index, n.snapshot.height, nil)
}

// raftLogger passes the library's messages to the log: those about elections at
// debug level, warnings and errors at their own.
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
func (l raftLogger) Fatal(v ...any)                   { panic(coreFault(fmt.Sprint(v...))) }
func (l raftLogger) Fatalf(format string, v ...any)   { panic(coreFault(fmt.Sprintf(format, v...))) }
func (l raftLogger) Panic(v ...any)                   { l.Fatal(v...) }
func (l raftLogger) Panicf(format string, v ...any)   { l.Fatalf(format, v...) }
