// Package raftlog keeps a Raft node's log durable: etcd's write-ahead log, and
// beside it small snapshot files. A snapshot holds no state, only how many blocks
// it stands for: the blocks themselves are in the channel's ledger.
package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/durable"
)

// SegmentBytes is the size of a file of the log, preallocated so that an fsync
// need not touch the file's own metadata.
const SegmentBytes = 16 << 20

func init() { wal.SegmentSizeBytes = SegmentBytes } // the wal package has no option for it

// The log of a new group does not begin at zero: all members start from the same
// made-up snapshot, which names the voters. That saves the first configuration entries.
const (
	firstIndex = 1
	firstTerm  = 1
)

// Log is the durable log together with the part of it that Raft reads (Memory).
type Log struct {
	Memory *raft.MemoryStorage

	dir       string
	joins     bool
	wal       *wal.WAL
	snapshots []snapshotName // on disk, oldest first
}

// Open reads the log in dir, or begins one for a new group of the given voters. Without voters it belongs to
// a node that joins a group: its log begins at zero, names no voters, and waits for a member's snapshot. When
// the log ends in a torn write, as a crash leaves it, the tail is cut off: it was
// never reported as durable. A log that is damaged otherwise is refused, by ErrDamaged, and stays as it is.
func Open(dir string, voters []uint64) (*Log, error) {
	l := &Log{Memory: raft.NewMemoryStorage(), dir: dir, joins: len(voters) == 0}
	for _, sub := range []string{l.snapDir(), dir} {
		if err := durable.MakeDir(sub); err != nil {
			return nil, err
		}
	}
	if err := l.dropPrepared(); err != nil {
		return nil, err
	}
	h, err := l.check()
	if err != nil {
		return nil, err
	}
	if l.begun(h) {
		err = l.reopen(h)
	} else {
		err = l.create(voters)
	}
	if err != nil {
		return nil, fmt.Errorf("raft log %s: %w", dir, err)
	}
	return l, nil
}

func (l *Log) walDir() string  { return filepath.Join(l.dir, "wal") }
func (l *Log) snapDir() string { return filepath.Join(l.dir, "snap") }

// files are the paths of the log's files with such an end to their names, in order. A log that was never begun has none.
func (l *Log) files(end string) ([]string, error) {
	all, err := os.ReadDir(l.walDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var paths []string
	for _, one := range all { // by name
		if strings.HasSuffix(one.Name(), end) {
			paths = append(paths, filepath.Join(l.walDir(), one.Name()))
		}
	}
	return paths, err
}

// dropPrepared removes files that were to be the log's next ones. etcd would write into them without making them empty, and
// what a file that was never finished holds would then stand behind the next one's beginning.
func (l *Log) dropPrepared() error {
	prepared, err := l.files(".tmp")
	for _, path := range prepared {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// begun reports whether create once came to its end. A crash before leaves a log
// without the first snapshot: nothing can have been written to it since.
func (l *Log) begun(h *history) bool {
	if l.joins {
		return wal.Exist(l.walDir()) // its vote may be in there, before any snapshot
	}
	for name := range h.notes() {
		if name.index >= firstIndex {
			return true
		}
	}
	return false
}

func (l *Log) create(voters []uint64) error {
	if err := os.RemoveAll(l.walDir()); err != nil {
		return err
	}
	w, err := wal.Create(zap.NewNop(), l.walDir(), nil)
	if err != nil {
		return err
	}
	l.wal = w
	if l.joins {
		return nil
	}
	state := &raftpb.HardState{Term: proto.Uint64(firstTerm), Vote: proto.Uint64(0), Commit: proto.Uint64(firstIndex)}
	return l.SaveSnapshot(NewSnapshot(firstIndex, firstTerm, voters, 0), state)
}

func (l *Log) reopen(h *history) error {
	snapshot, err := l.newestSnapshot(h)
	if err != nil {
		return err
	}
	if h.torn != "" {
		if err := cutOff(h.torn, h.whole); err != nil {
			return err
		}
	}
	var state *raftpb.HardState
	var entries []*raftpb.Entry
	if l.wal, state, entries, err = l.read(wal.Open, h, snapshot); err != nil {
		return err
	}
	if snapshot != nil {
		if err := l.Memory.ApplySnapshot(snapshot); err != nil {
			return err
		}
	}
	// The commit index is written without an fsync of its own and may be behind the snapshot.
	if state.GetCommit() < snapshot.GetMetadata().GetIndex() {
		state.Commit = proto.Uint64(snapshot.GetMetadata().GetIndex())
	}
	if state.GetTerm() < snapshot.GetMetadata().GetTerm() {
		state.Term = proto.Uint64(snapshot.GetMetadata().GetTerm())
	}
	if err := l.Memory.SetHardState(state); err != nil {
		return err
	}
	if err := l.Memory.Append(entries); err != nil {
		return err
	}
	// A process that was killed may have written without a sync what this one answers for: the leader sends again, and
	// what is in the log already is acknowledged without another write. What was cut off stays away, too.
	return l.wal.Sync()
}

// cutOff ends a file at a place, and preallocates it again. etcd's own repair makes a copy of the file, for which a full disk
// has no room. There the file may stay short.
func cutOff(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(at)
	if err == nil {
		err = fileutil.Preallocate(f, wal.SegmentSizeBytes, true)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// MarkCommitted tells the log that index is known to be committed, because the
// ledger on disk holds its transactions. It errs when the log does not reach so
// far: then log and ledger do not belong together.
func (l *Log) MarkCommitted(index uint64) error {
	last, err := l.Memory.LastIndex()
	if err != nil {
		return err
	}
	if last < index {
		return fmt.Errorf("raft log %s ends at entry %d, but the ledger holds entry %d: log and ledger do not belong together; %s",
			l.dir, last, index, Remedy)
	}
	state, _, err := l.Memory.InitialState()
	if err != nil || state.GetCommit() >= index {
		return err
	}
	state = proto.Clone(state).(*raftpb.HardState)
	state.Commit = proto.Uint64(index)
	return l.Memory.SetHardState(state)
}

// Save writes what Raft wants durable; when entries, term or vote are among it,
// it returns after the fsync. A commit index alone is kept for the next one, or for Sync. So each save that is written is one
// sync, and ends with the state: what follows a state in the file proves that all before it was durable.
func (l *Log) Save(state *raftpb.HardState, entries []*raftpb.Entry) error {
	before, _, err := l.Memory.InitialState()
	if err != nil {
		return err
	}
	if raft.IsEmptyHardState(state) {
		state = before
	}
	if err := l.Memory.SetHardState(state); err != nil {
		return err
	}
	if !raft.MustSync(state, before, len(entries)) {
		return nil
	}
	if err := l.wal.Save(state, entries); err != nil {
		return fmt.Errorf("raft log %s: %w", l.dir, err)
	}
	return l.Memory.Append(entries)
}

// Sync makes durable what Save need not have: a commit index alone.
func (l *Log) Sync() error {
	state, _, err := l.Memory.InitialState()
	if err != nil {
		return err
	}
	if err := errors.Join(l.wal.Save(state, nil), l.wal.Sync()); err != nil {
		return fmt.Errorf("raft log %s: %w", l.dir, err)
	}
	return nil
}

// SaveSnapshot makes a snapshot that another node sent (or that begins a new log) durable, with the state at that place.
// Entries may follow: without a commit index the snapshot would not count when the log is opened again, and they would
// follow nothing.
func (l *Log) SaveSnapshot(s *raftpb.Snapshot, state *raftpb.HardState) error {
	if err := l.persist(s); err != nil {
		return err
	}
	if err := l.Memory.ApplySnapshot(s); err != nil {
		return err
	}
	if !raft.IsEmptyHardState(state) {
		if err := l.Memory.SetHardState(state); err != nil {
			return err
		}
	}
	return l.Sync()
}

// Compact makes a snapshot of our own at index, and forgets the log before the
// snapshot before it: what lies between lets a slow node catch up without a snapshot.
// conf is who votes from index on; nil: as in the snapshot before.
func (l *Log) Compact(index, height uint64, conf *raftpb.ConfState) error {
	if conf == nil {
		var err error
		if _, conf, err = l.Memory.InitialState(); err != nil {
			return err
		}
	}
	previous, err := l.Memory.Snapshot()
	if err != nil {
		return err
	}
	created, err := l.Memory.CreateSnapshot(index, conf, encodeHeight(height))
	if err != nil {
		return fmt.Errorf("raft snapshot at %d: %w", index, err)
	}
	// A snapshot beyond what the log knows to be committed would not count when it is opened again.
	if err := l.Sync(); err != nil {
		return err
	}
	if err := l.persist(created); err != nil {
		return err
	}
	if keep := previous.GetMetadata().GetIndex(); keep > 0 {
		if err := l.Memory.Compact(keep); err != nil && !errors.Is(err, raft.ErrCompacted) {
			return err
		}
	}
	return l.purge()
}

func (l *Log) persist(s *raftpb.Snapshot) error {
	name, err := writeSnapshot(l.snapDir(), s)
	if err != nil {
		return err
	}
	l.snapshots = append(l.snapshots, name)
	if err := l.wal.SaveSnapshot(walSnapshot(s)); err != nil {
		return fmt.Errorf("raft log %s: %w", l.dir, err)
	}
	return nil
}

// purge removes what is no longer needed: all but two snapshots, and the files
// of the log that end before the older of them.
func (l *Log) purge() error {
	const keep = 2
	if len(l.snapshots) < keep {
		return nil
	}
	oldest := l.snapshots[len(l.snapshots)-keep]
	if err := l.wal.ReleaseLockTo(oldest.index); err != nil {
		return err
	}
	files, err := l.files(".wal")
	if err != nil {
		return err
	}
	// A file starts with the index in its name; it may go when the next one starts before what is needed.
	for i := 0; i+1 < len(files); i++ {
		var seq, next uint64
		if _, err := fmt.Sscanf(filepath.Base(files[i+1]), "%016x-%016x.wal", &seq, &next); err != nil || next > oldest.index {
			break
		}
		if err := os.Remove(files[i]); err != nil {
			return err
		}
	}
	for _, s := range l.snapshots[:len(l.snapshots)-keep] {
		if err := os.Remove(filepath.Join(l.snapDir(), s.file())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	l.snapshots = slices.Clone(l.snapshots[len(l.snapshots)-keep:])
	return nil
}

// Close releases the files.
func (l *Log) Close() error { return l.wal.Close() }

func walSnapshot(s *raftpb.Snapshot) *walpb.Snapshot {
	m := s.GetMetadata()
	return &walpb.Snapshot{Index: proto.Uint64(m.GetIndex()), Term: proto.Uint64(m.GetTerm()), ConfState: m.GetConfState()}
}

func encodeHeight(height uint64) []byte { return binary.BigEndian.AppendUint64(nil, height) }

// Height is how many blocks a snapshot stands for.
func Height(s *raftpb.Snapshot) (uint64, error) {
	if len(s.GetData()) != 8 {
		return 0, fmt.Errorf("raft snapshot at %d: %d bytes of data, 8 are accepted", s.GetMetadata().GetIndex(), len(s.GetData()))
	}
	return binary.BigEndian.Uint64(s.Data), nil
}

// NewSnapshot makes a snapshot of a group of voters.
func NewSnapshot(index, term uint64, voters []uint64, height uint64) *raftpb.Snapshot {
	return &raftpb.Snapshot{Data: encodeHeight(height), Metadata: &raftpb.SnapshotMetadata{
		Index: proto.Uint64(index), Term: proto.Uint64(term),
		ConfState: raftpb.EnsureConfState(&raftpb.ConfState{Voters: voters}),
	}}
}
