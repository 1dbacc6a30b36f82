package raftlog

import (
	"os"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// opener is one of etcd's functions: wal.Open, or wal.OpenForRead, which changes nothing.
type opener func(*zap.Logger, string, *walpb.Snapshot) (*wal.WAL, error)

// read opens the files, and gives the state and the entries that follow a snapshot. Without one
// it is the log of a node that joins, which begins at zero.
func (l *Log) read(open opener, snapshot *raftpb.Snapshot) (*wal.WAL, *raftpb.HardState, []*raftpb.Entry, error) {
	start := walSnapshot(snapshot)
	w, err := open(zap.NewNop(), l.walDir(), start)
	if err != nil {
		return nil, nil, nil, err
	}
	_, state, entries, err := w.ReadAll()
	if err == nil {
		entries, err = l.undiscarded(start, entries)
	}
	if err != nil {
		_ = w.Close() // the error of reading is the one to return
		return nil, nil, nil, err
	}
	return w, state, entries, nil
}

// undiscarded are those of the entries after a snapshot that are in force. etcd's reader goes by their numbers alone: it gives
// those, too, that ended with another's snapshot or with a later entry of a number up to the snapshot's.
func (l *Log) undiscarded(start *walpb.Snapshot, entries []*raftpb.Entry) ([]*raftpb.Entry, error) {
	files, err := l.files(".wal")
	if err != nil {
		return nil, err
	}
	p := replay{start: start}
	chain := uint32(0)
	for i, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		_, chain = intact(raw, chain, i > 0, p.frame)
	}
	if p.last < start.GetIndex() {
		return nil, nil
	}
	return entries[:min(uint64(len(entries)), p.last-start.GetIndex())], nil
}

// replay finds the last entry of a log that has a snapshot. Each entry that is saved ends what was after it.
type replay struct {
	start *walpb.Snapshot
	term  uint64 // term is that of the entry that the snapshot ends with, if the log has it; else 0
	last  uint64 // last is the number of the last entry
}

// frame takes the next one. A snapshot of this node's own ends with an entry that the log has. Raft takes another's over only
// where the log does not have that entry, in that term, and all that the log had ends there.
func (p *replay) frame(f frame) {
	switch f.kind {
	case wal.EntryType:
		entry := &raftpb.Entry{}
		if proto.Unmarshal(f.data, entry) != nil {
			return // frameAt has read it
		}
		p.last = entry.GetIndex()
		switch {
		case p.last == p.start.GetIndex():
			p.term = entry.GetTerm()
		case p.last < p.start.GetIndex():
			p.term = 0
		}
	case wal.SnapshotType:
		noted := &walpb.Snapshot{}
		if proto.Unmarshal(f.data, noted) != nil || noted.GetIndex() != p.start.GetIndex() {
			return
		}
		if noted.GetTerm() == p.start.GetTerm() && noted.GetTerm() != p.term {
			p.last = p.start.GetIndex()
		}
	}
}

// Kept is the number of the first block of which all entries are in the log in dir, and of all after it up to the log's last
// entry, last. It changes nothing, and errs where there is no such log, it cannot be read whole, or no snapshot says how many
// blocks it stands for.
func Kept(dir string) (block, last uint64, err error) {
	l := &Log{dir: dir}
	if err := l.check(); err != nil {
		return 0, 0, err
	}
	snapshot, err := l.newestSnapshot()
	if err != nil {
		return 0, 0, err
	}
	height, err := Height(snapshot)
	if err != nil {
		return 0, 0, err
	}
	w, _, entries, err := l.read(wal.OpenForRead, snapshot) // it cuts off nothing
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
