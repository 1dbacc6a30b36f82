package raftlog

import (
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// history is what a log's files say, in order, of where it ends.
type history struct {
	records []record
	commit  uint64 // by the last state
	torn    string // the last file, where a crash has torn what was written to it last; else empty
	whole   int64  // how many bytes of it are whole
}

// record is an entry or a note of a snapshot.
type record struct {
	kind        int64
	index, term uint64
}

// add takes the next frame, which frameAt has read without an error.
func (h *history) add(f frame) {
	switch f.kind {
	case wal.EntryType:
		entry := &raftpb.Entry{}
		_ = proto.Unmarshal(f.data, entry)
		h.records = append(h.records, record{f.kind, entry.GetIndex(), entry.GetTerm()})
	case wal.SnapshotType:
		noted := &walpb.Snapshot{}
		_ = proto.Unmarshal(f.data, noted)
		h.records = append(h.records, record{f.kind, noted.GetIndex(), noted.GetTerm()})
	case wal.StateType:
		state := &raftpb.HardState{}
		_ = proto.Unmarshal(f.data, state)
		h.commit = state.GetCommit()
	}
}

// notes are the snapshots that count: of one beyond what is committed a crash has kept the state.
func (h *history) notes() map[snapshotName]bool {
	known := map[snapshotName]bool{}
	for _, r := range h.records {
		if r.kind == wal.SnapshotType && r.index <= h.commit {
			known[snapshotName{term: r.term, index: r.index}] = true
		}
	}
	return known
}

// last is the number of the last entry that is in force, of a log that starts with a snapshot. Each entry that is saved ends
// what was after it. A snapshot of this node's own ends with an entry that the log has. Raft takes another's over only where
// the log does not have that entry, in that term, and all that the log had ends there.
func (h *history) last(start *walpb.Snapshot) (last uint64) {
	var term uint64 // of the entry that the snapshot ends with, if the log has it; else 0
	for _, r := range h.records {
		switch {
		case r.kind == wal.EntryType:
			last = r.index
			if r.index == start.GetIndex() {
				term = r.term
			} else if r.index < start.GetIndex() {
				term = 0
			}
		case r.index == start.GetIndex() && r.term == start.GetTerm() && r.term != term:
			last = r.index
		}
	}
	return last
}

// opener is one of etcd's functions: wal.Open, or wal.OpenForRead, which changes nothing.
type opener func(*zap.Logger, string, *walpb.Snapshot) (*wal.WAL, error)

// read opens the files, and gives the state and the entries that follow a snapshot and are in force. etcd's reader goes by
// their numbers alone: it gives those, too, that ended with another's snapshot or with a later entry of a number up to the
// snapshot's. Without a snapshot it is the log of a node that joins, which begins at zero.
func (l *Log) read(open opener, h *history, snapshot *raftpb.Snapshot) (*wal.WAL, *raftpb.HardState, []*raftpb.Entry, error) {
	start := walSnapshot(snapshot)
	w, err := open(zap.NewNop(), l.walDir(), start)
	if err != nil {
		return nil, nil, nil, err
	}
	_, state, entries, err := w.ReadAll()
	if err != nil {
		_ = w.Close() // the error of reading is the one to return
		return nil, nil, nil, err
	}
	inForce := max(h.last(start), start.GetIndex()) - start.GetIndex()
	return w, state, entries[:min(uint64(len(entries)), inForce)], nil
}

// Kept is the number of the first block of which all entries are in the log in dir, and of all after it up to the log's last
// entry, last. It changes nothing, and errs where there is no such log, it cannot be read whole, or no snapshot says how many
// blocks it stands for.
func Kept(dir string) (block, last uint64, err error) {
	l := &Log{dir: dir}
	h, err := l.check()
	if err != nil {
		return 0, 0, err
	}
	snapshot, err := l.newestSnapshot(h)
	if err != nil {
		return 0, 0, err
	}
	height, err := Height(snapshot)
	if err != nil {
		return 0, 0, err
	}
	w, _, entries, err := l.read(wal.OpenForRead, h, snapshot) // it cuts off nothing
	if err != nil {
		return 0, 0, err
	}
	_ = w.Close() // of a log that is read alone it always errs
	last = snapshot.GetMetadata().GetIndex()
	if n := len(entries); n > 0 {
		last = entries[n-1].GetIndex()
	}
	return max(height, 1), last, nil // block 0 is in no log
}
