package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/durable"
)

// snapshotName is a snapshot's place in the log, and so its file's name.
type snapshotName struct{ term, index uint64 }

func (n snapshotName) file() string { return fmt.Sprintf("%016x-%016x.snap", n.term, n.index) }

// maxSnapshot bounds the file: a group's voters and a number.
const maxSnapshot = 1 << 20

// writeSnapshot puts a snapshot's file there whole or not at all: a checksum, then the message.
func writeSnapshot(dir string, s *raftpb.Snapshot) (snapshotName, error) {
	name := snapshotName{term: s.GetMetadata().GetTerm(), index: s.GetMetadata().GetIndex()}
	raw, err := proto.Marshal(s)
	if err != nil {
		return name, err
	}
	content := append(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(raw)), raw...)
	return name, durable.Replace(dir, name.file(), nil, func(w *durable.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func readSnapshot(path string) (*raftpb.Snapshot, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(raw) < 4 || len(raw) > maxSnapshot || binary.BigEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[4:]) {
		return nil, fmt.Errorf("snapshot %s is damaged", path)
	}
	var s raftpb.Snapshot
	if err := proto.Unmarshal(raw[4:], &s); err != nil {
		return nil, fmt.Errorf("snapshot %s is damaged", path)
	}
	return &s, nil
}

// newestSnapshot finds the newest file that the log knows of: after a crash
// between writing the file and noting it in the log it is the one before.
func (l *Log) newestSnapshot(h *history) (*raftpb.Snapshot, error) {
	known := h.notes()
	files, err := os.ReadDir(l.snapDir())
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		var n snapshotName
		if !strings.HasSuffix(f.Name(), ".snap") {
			continue
		}
		if _, err := fmt.Sscanf(f.Name(), "%016x-%016x.snap", &n.term, &n.index); err != nil {
			return nil, fmt.Errorf("%s is not a snapshot's name", f.Name())
		}
		if known[n] {
			l.snapshots = append(l.snapshots, n)
		}
	}
	slices.SortFunc(l.snapshots, func(a, b snapshotName) int {
		if a.index < b.index {
			return -1
		}
		return 1
	})
	if len(l.snapshots) == 0 && l.joins {
		return nil, nil // it has not been sent one yet
	}
	if len(l.snapshots) == 0 {
		return nil, errors.New("no snapshot that the log knows of is left")
	}
	return readSnapshot(filepath.Join(l.snapDir(), l.snapshots[len(l.snapshots)-1].file()))
}
