package durable_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft/votelog"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// disk is a real file system on a store that can refuse writes, as a thin volume does that is out of space.
type disk struct {
	t            *testing.T
	store, image string
	dir          string // where it is mounted
}

func newDisk(t *testing.T) *disk {
	if os.Geteuid() != 0 {
		t.Skip("mounts a disk, which needs root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("needs Debian's package e2fsprogs")
	}
	below := t.TempDir()
	d := &disk{t: t, store: filepath.Join(below, "store"), dir: filepath.Join(below, "disk")}
	d.image = filepath.Join(d.store, "image")
	for _, dir := range []string{d.store, d.dir} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "none", d.store).CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %s", out)
	}
	// The image stays in use for a moment after its disk is unmounted: until the last process has closed the loop device.
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return exec.Command("umount", d.store).Run() == nil }, time.Minute, 10*time.Millisecond)
	})
	image, err := os.Create(d.image)
	require.NoError(t, err)
	require.NoError(t, errors.Join(image.Truncate(256<<20), image.Close()))
	// A journal would be refused as well, and end the file system.
	d.run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=0", d.image)
	if out, err := d.mount(); err != nil {
		t.Skipf("no disk can be mounted here: %s", out)
	}
	t.Cleanup(func() { d.run("umount", d.dir) })
	return d
}

func (d *disk) run(name string, args ...string) {
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(d.t, err, "%s: %s", name, out)
}

func (d *disk) mount() ([]byte, error) {
	return exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
}

// refuse has the disk refuse all writes to where it has not been written before, while work is done.
func (d *disk) refuse(work func()) {
	filler := filepath.Join(d.store, "filler")
	file, err := os.Create(filler)
	require.NoError(d.t, err)
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	require.NoError(d.t, file.Close())
	work()
	require.NoError(d.t, os.Remove(filler))
}

// restart leaves what is on the disk alone: the page cache is gone.
func (d *disk) restart() {
	d.run("umount", d.dir)
	out, err := d.mount()
	require.NoError(d.t, err, "%s", out)
}

// opened is a log that a process has open.
type opened struct {
	has    int // records
	append func() error
	close  func() error
}

// TestWhatADiskRefusedIsNotRead: the page cache shows it to the process that comes after the one whose sync failed. That one
// would tell others of it, and not have it once the machine has restarted.
func TestWhatADiskRefusedIsNotRead(t *testing.T) {
	record := bytes.Repeat([]byte("data"), 2<<20) // more than a log has written ahead
	for name, open := range map[string]func(t *testing.T, dir string) opened{
		"ledger": func(t *testing.T, dir string) opened {
			store, err := blockfile.Open(dir, blockfile.Options{})
			require.NoError(t, err)
			_, txs := store.OpenTail()
			return opened{len(txs), func() error {
				return errors.Join(store.AppendTx(0, uint64(len(txs)), record, 0), store.Sync())
			}, store.Close}
		},
		"votes": func(t *testing.T, dir string) opened {
			log, records, err := votelog.Open(dir, votelog.Options{})
			require.NoError(t, err)
			return opened{len(records), func() error { return log.Append([][]byte{record}) }, log.Close}
		},
		"sequencer": func(t *testing.T, dir string) opened {
			log, err := sequencer.Open(dir, false)
			require.NoError(t, err)
			last, _ := log.Last()
			return opened{int(last), func() error {
				_, err := log.Append([][]byte{record})
				return err
			}, log.Close}
		},
		"raft": func(t *testing.T, dir string) opened {
			log, err := raftlog.Open(dir, []uint64{1})
			require.NoError(t, err)
			last, err := log.Memory.LastIndex()
			require.NoError(t, err)
			entry := &raftpb.Entry{Index: proto.Uint64(last + 1), Term: proto.Uint64(1), Data: record}
			return opened{int(last) - 1, func() error {
				return log.Save(&raftpb.HardState{}, []*raftpb.Entry{entry})
			}, log.Close}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			has := func() int {
				log := open(t, filepath.Join(d.dir, "log"))
				require.NoError(t, log.close())
				return log.has
			}
			log := open(t, filepath.Join(d.dir, "log"))
			require.NoError(t, errors.Join(log.append(), log.close()))
			log = open(t, filepath.Join(d.dir, "log"))
			d.refuse(func() { assert.Error(t, log.append(), "else nothing is tried here") })
			_ = log.close()
			found := has()
			d.restart()
			assert.Equal(t, found, has())
			assert.Equal(t, 1, found, "what was synced is there")
		})
	}
}

// deaf is a file that hears nothing of what its disk refuses.
type deaf struct{ *os.File }

func (f deaf) Sync() error {
	_ = f.File.Sync()
	return nil
}

// TestWhatADiskRefusedBeforeTheNewestFileIsNotRead: the newest file may have been begun after it.
func TestWhatADiskRefusedBeforeTheNewestFileIsNotRead(t *testing.T) {
	d := newDisk(t)
	dir := filepath.Join(d.dir, "log")
	store, err := blockfile.Open(dir, blockfile.Options{SegmentBytes: 1, OpenFile: func(path string) (blockfile.File, error) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
		return deaf{f}, err
	}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(store.AppendTx(0, 0, []byte("data"), 0), store.Sync()))
	d.refuse(func() {
		require.NoError(t, store.AppendTx(0, 1, bytes.Repeat([]byte("data"), 2<<20), 0))
		require.NoError(t, errors.Join(store.AppendSeal(&commonpb.BlockHeader{}, nil), store.Sync()))
	})
	require.NoError(t, errors.Join(store.AppendTx(1, 0, []byte("data"), 0), store.Close()))
	found := func() error {
		store, err := blockfile.Open(dir, blockfile.Options{})
		if err != nil {
			return err
		}
		_, err = store.Block(0)
		return errors.Join(err, store.Close())
	}
	before := found()
	d.restart()
	require.Error(t, found(), "else nothing is tried here")
	require.Error(t, before)
}
