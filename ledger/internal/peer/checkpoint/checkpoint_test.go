package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/statedb"
)

// sample is a state of n keys in two namespaces.
func sample(blocks uint64, n int) (Point, *statedb.DB) {
	db := statedb.New()
	for i := range n {
		v := statedb.Version{Block: uint64(i) / 3, Tx: uint64(i) % 3, Hash: fmt.Sprint("hash ", i)[:i%7]}
		db.Apply(v, []statedb.Write{
			{Namespace: "kv", Key: fmt.Sprint(i), Value: []byte(fmt.Sprint("value ", i))},
			{Namespace: "other", Key: "same", Value: nil},
		})
	}
	return Point{Channel: "ch", Blocks: blocks, Hash: []byte("hash"), Commit: []byte("commit"), Config: 1, Transactions: uint64(n) + 9}, db
}

func anything(Point) error { return nil }

// reload reads a folder as a start does, and gives what was left aside.
func reload(t *testing.T, dir string, fits func(Point) error) (*Folder, *Loaded, []string) {
	t.Helper()
	var skipped []string
	f := Open(dir, nil)
	l := f.Newest(fits, func(file string, why error) { skipped = append(skipped, filepath.Base(file)+": "+why.Error()) })
	return f, l, skipped
}

func equal(t *testing.T, p Point, db *statedb.DB, l *Loaded) {
	t.Helper()
	require.NotNil(t, l)
	assert.Equal(t, p, l.Point)
	assert.Equal(t, db.Snapshot().Hash(), l.State.Snapshot().Hash())
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	f, l, skipped := reload(t, dir, anything)
	require.Nil(t, l)
	require.Empty(t, skipped)
	for i, n := range []int{0, 5, 5, 1000, 1003} {
		p, db := sample(uint64(n+i+1), n)
		require.NoError(t, f.Save(p, db.Snapshot(), nil))
		var again *Folder
		again, l, skipped = reload(t, dir, anything)
		require.Empty(t, skipped)
		equal(t, p, db, l)
		if i%2 == 1 {
			f = again // the next one goes on after a restart
		}
	}
	files, err := Files(dir)
	require.NoError(t, err)
	assert.Len(t, files, kept)
}

func TestRefusedTransactionsAreSavedToo(t *testing.T) {
	dir := t.TempDir()
	p, db := sample(9, 3)
	refused := []txids.ID{{Key: [32]byte{2}, Block: 1, Code: 4}, {Key: [32]byte{1}, Block: 8, Tx: 300, Code: 4}}
	require.NoError(t, Open(dir, nil).Save(p, db.Snapshot(), refused))
	_, l, skipped := reload(t, dir, anything)
	require.Empty(t, skipped)
	equal(t, p, db, l)
	assert.Equal(t, refused, l.Refused)
}

// TestAFileOfTheFormatBeforeIsRead: a peer that is upgraded need not replay its chain.
func TestAFileOfTheFormatBeforeIsRead(t *testing.T) {
	dir := t.TempDir()
	p, db := sample(9, 30)
	require.NoError(t, Open(dir, nil).Save(p, db.Snapshot(), nil))
	files, err := Files(dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	content := raw[len(magic) : len(raw)-sha256.Size-1] // it ends with the number of refused transactions, which is none
	former := append([]byte(formerMagic), content...)
	sum := sha256.Sum256(former)
	require.NoError(t, os.WriteFile(files[0], append(former, sum[:]...), 0o644))
	_, l, skipped := reload(t, dir, anything)
	require.Empty(t, skipped)
	equal(t, p, db, l)
	assert.Empty(t, l.Refused)
}

// TestAnyDamageLeavesTheOneBefore spoils the newest checkpoint at many places.
func TestAnyDamageLeavesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir, nil)
	older, olderDB := sample(10, 40)
	require.NoError(t, f.Save(older, olderDB.Snapshot(), nil))
	newer, newerDB := sample(20, 60)
	require.NoError(t, f.Save(newer, newerDB.Snapshot(), nil))
	newest := filepath.Join(dir, fmt.Sprintf("%s%012d", prefix, 20))
	whole, err := os.ReadFile(newest)
	require.NoError(t, err)
	try := func(what string, raw []byte) *Folder {
		t.Helper()
		require.NoError(t, os.WriteFile(newest, raw, 0o644))
		again, l, skipped := reload(t, dir, anything)
		require.Len(t, skipped, 1, what)
		assert.Contains(t, skipped[0], fmt.Sprintf("%012d: damaged", 20), what)
		equal(t, older, olderDB, l)
		return again
	}
	for at := 0; at < len(whole); at += 11 {
		spoiled := append([]byte(nil), whole...)
		spoiled[at] ^= 0x10
		try(fmt.Sprint("flip ", at), spoiled)
		try(fmt.Sprint("cut ", at), whole[:at])
	}
	// The damaged one goes with the next one.
	again := try("empty", nil)
	newer.Blocks = 30
	require.NoError(t, again.Save(newer, newerDB.Snapshot(), nil))
	_, l, skipped := reload(t, dir, anything)
	assert.Empty(t, skipped)
	equal(t, newer, newerDB, l)
}

func TestOneOfAnotherChainIsLeftAside(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir, nil)
	for _, blocks := range []uint64{10, 20} {
		p, db := sample(blocks, int(blocks))
		require.NoError(t, f.Save(p, db.Snapshot(), nil))
	}
	_, l, skipped := reload(t, dir, func(p Point) error {
		if p.Blocks > 15 {
			return errors.New("the chain has 15 blocks")
		}
		return nil
	})
	assert.Equal(t, []string{"state-000000000020: the chain has 15 blocks"}, skipped)
	require.NotNil(t, l)
	assert.EqualValues(t, 10, l.Point.Blocks)
}

// TestAnUnfinishedAttemptIsRepeated: the state could not be written.
func TestAnUnfinishedAttemptIsRepeated(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir, nil)
	p, db := sample(10, 30)
	blocked := filepath.Join(dir, durable.Making)
	require.NoError(t, os.Mkdir(blocked, 0o755))
	require.Error(t, f.Save(p, db.Snapshot(), nil))
	_, l, _ := reload(t, dir, anything)
	require.Nil(t, l)
	require.NoError(t, os.Remove(blocked))
	require.NoError(t, f.Save(p, db.Snapshot(), nil))
	_, l, skipped := reload(t, dir, anything)
	assert.Empty(t, skipped)
	equal(t, p, db, l)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\x02ch\x05\x00\x00\x01\x01\x01\x01\x02kv\x01\x01a\x01\x02\x01b\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := reader{rest: raw}
		in.point()
		db := in.state()
		in.refused(math.MaxUint64)
		if !in.failed {
			db.Snapshot().Hash()
		}
	})
}
