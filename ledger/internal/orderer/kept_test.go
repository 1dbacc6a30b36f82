package orderer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/nodeconfig"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/orderer/raftlog"
	"github.com/qioi/qioi/ledger/internal/setup"
)

// damage zeroes the beginning of a transaction's bytes in an orderer's block file, as a power cut may that kept what follows.
func (c *testCluster) damage(i int, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, c.node(i).Data, "channels", ch, "blocks", "segment-000000.blk")
	raw, err := os.ReadFile(path)
	require.NoError(c.t, err)
	at := bytes.Index(raw, []byte(text))
	require.Positive(c.t, at)
	clear(raw[at : at+len(text)])
	require.NoError(c.t, os.WriteFile(path, raw, 0o644))
}

// TestBlocksThatAPowerCutHasDamagedComeFromTheLog: the one orderer there is has nobody else to ask.
func TestBlocksThatAPowerCutHasDamagedComeFromTheLog(t *testing.T) {
	c := newCluster(t, func(o *setup.Options) {
		o.Consenter, o.Orderers, o.Mode, o.MaxMessageCount = "solo", 1, "block", 1
	})
	stop := c.start(0)
	for i := range 6 {
		c.orderAt(0, fmt.Sprint("transaction ", i))
	}
	stop()
	hashes, texts := c.chainOnDisk(0, ch)
	require.Len(t, texts, 6)
	c.damage(0, "transaction 3")
	said := opstest.Logged(t, func() { stop = c.start(0) })
	segment := filepath.Join(c.dir, c.node(0).Data, "channels", ch, "blocks", "segment-000000.blk")
	assert.Contains(t, said, segment+": ")
	assert.Contains(t, said, segment+".damaged is a copy. 4 blocks are left")
	c.orderAt(0, "after")
	stop()
	again, all := c.chainOnDisk(0, ch)
	assert.Equal(t, hashes, again[:len(hashes)])
	assert.Equal(t, append(texts, "after"), all)
}

// change changes the one file of a log.
func change(t *testing.T, part string, how func(raw []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(part, "wal", "*.wal"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	how(raw)
	require.NoError(t, os.WriteFile(files[0], raw, 0o600))
}

// frameOf is where the frame of the log begins that has a text: a length, which counts no padding to eight bytes, and a record.
func frameOf(raw []byte, text string) int {
	wanted := bytes.Index(raw, []byte(text))
	for at := 0; ; {
		record := int(binary.LittleEndian.Uint64(raw[at:]) & (1<<56 - 1))
		next := at + 8 + (record+7)&^7
		if next > wanted {
			return at
		}
		at = next
	}
}

// shorten begins a log of one orderer that is whole and ends with an entry.
func shorten(t *testing.T, part string, last uint64) {
	t.Helper()
	l, err := raftlog.Open(part, []uint64{1})
	require.NoError(t, err)
	state := &raftpb.HardState{Term: proto.Uint64(2), Vote: proto.Uint64(1), Commit: proto.Uint64(last)}
	var entries []*raftpb.Entry
	for i := uint64(2); i <= last; i++ {
		entries = append(entries, &raftpb.Entry{Term: proto.Uint64(2), Index: proto.Uint64(i)})
	}
	require.NoError(t, l.Save(state, entries))
	require.NoError(t, l.Close())
	_, end, err := raftlog.Kept(part)
	require.NoError(t, err)
	require.Equal(t, last, end)
}

// TestDamageThatNoLogMendsIsRefused: without its log an orderer does not know what it has answered for.
func TestDamageThatNoLogMendsIsRefused(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, part string){
		"no log":        func(t *testing.T, part string) { require.NoError(t, os.RemoveAll(part)) },
		"a damaged log": func(t *testing.T, part string) { require.NoError(t, os.RemoveAll(filepath.Join(part, "snap"))) },
		"another's log": func(t *testing.T, part string) { require.NoError(t, os.Mkdir(part+"-7", 0o755)) },
		"a flipped bit": func(t *testing.T, part string) {
			change(t, part, func(raw []byte) { raw[bytes.Index(raw, []byte("transaction 1"))] ^= 1 })
		},
		"a zeroed length": func(t *testing.T, part string) { // etcd would take it for the log's end
			change(t, part, func(raw []byte) { clear(raw[frameOf(raw, "transaction 2"):][:8]) })
		},
		"a log that ends early": func(t *testing.T, part string) {
			_, last, err := raftlog.Kept(part)
			require.NoError(t, err)
			require.NoError(t, os.RemoveAll(part))
			shorten(t, part, last-1)
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, func(o *setup.Options) {
				o.Consenter, o.Orderers, o.Mode, o.MaxMessageCount = "solo", 1, "block", 1
			})
			stop := c.start(0)
			for i := range 3 {
				c.orderAt(0, fmt.Sprint("transaction ", i))
			}
			stop()
			c.damage(0, "transaction 1")
			cfg, err := nodeconfig.Load(c.config(0), nodeconfig.RoleOrderer)
			require.NoError(t, err)
			folder := filepath.Join(cfg.Data, "channels", ch)
			harm(t, filepath.Join(folder, "raft"))
			blocks := os.DirFS(filepath.Join(folder, "blocks"))
			before, err := fs.ReadFile(blocks, "segment-000000.blk")
			require.NoError(t, err)
			_, err = Open(cfg)
			var corrupt *blockfile.CorruptError
			require.ErrorAs(t, err, &corrupt)
			after, err := fs.ReadFile(blocks, "segment-000000.blk")
			require.NoError(t, err)
			assert.Equal(t, before, after, "a refused ledger is left as it is")
		})
	}
}

// TestWhatASnapshotStandsForIsNotInTheLog: damage to it is refused, and the blocks come from the other orderers.
func TestWhatASnapshotStandsForIsNotInTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const damaged = 2
	c := newCluster(t, func(o *setup.Options) { o.Mode, o.MaxMessageCount, o.SnapshotBytes = "block", 1, 32<<10 })
	run := func() (stop func()) {
		var all []func()
		for i := range 3 {
			all = append(all, c.start(i))
		}
		return func() {
			level(t, c)
			for _, stop := range all {
				stop()
			}
		}
	}
	stop := run()
	text := func(i int) string { return fmt.Sprintf("transaction %04d%s", i, strings.Repeat("x", 4<<10)) }
	for i := range 30 {
		c.order(c.message(ch, text(i)))
	}
	stop()
	stop = run() // a snapshot that was begun has ended, and these are too few for the next one
	for i := range 5 {
		c.order(c.message(ch, fmt.Sprint("small ", i)))
	}
	stop()
	cfg, err := nodeconfig.Load(c.config(damaged), nodeconfig.RoleOrderer)
	require.NoError(t, err)
	folder := filepath.Join(cfg.Data, "channels", ch)
	first, _, err := raftlog.Kept(filepath.Join(folder, "raft"))
	require.NoError(t, err)
	require.Greater(t, first, uint64(4), "there is a snapshot")
	before, _ := c.chainOnDisk(0, ch)
	require.Greater(t, len(before), int(first)+1)

	_, texts := c.chainOnDisk(damaged, ch)
	c.damage(damaged, texts[first]) // of the block after it
	stop = run()
	stop()
	after, _ := c.chainOnDisk(damaged, ch)
	assert.Equal(t, before, after[:len(before)])

	c.damage(damaged, texts[1])
	_, err = Open(cfg)
	var corrupt *blockfile.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "blocks")))
	stop = run()
	stop()
	after, _ = c.chainOnDisk(damaged, ch)
	assert.Equal(t, before, after[:len(before)])
}
