package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/statedb"
)

// sample is a state of n keys in two namespaces, and as many ids.
func sample(blocks uint64, n int) (Point, *statedb.DB, []ID) {
	db := statedb.New()
	var taken []ID
	for i := range n {
		v := statedb.Version{Block: uint64(i) / 3, Tx: uint64(i) % 3}
		db.Apply(v, []statedb.Write{
			{Namespace: "kv", Key: fmt.Sprint(i), Value: []byte(fmt.Sprint("value ", i))},
			{Namespace: "other", Key: "same", Value: nil},
		})
		taken = append(taken, ID{Key: [32]byte{byte(i), byte(i >> 8), 7}, Block: v.Block, Tx: uint32(v.Tx), Code: uint8(i % 2)})
	}
	return Point{Channel: "ch", Blocks: blocks, Hash: []byte("hash"), Commit: []byte("commit"), Config: 1, Transactions: uint64(n) + 9, IDs: uint64(n)}, db, taken
}

func anything(Point) error { return nil }

// reload reads a folder as a start does, and gives what was left aside.
func reload(t *testing.T, dir string, fits func(Point) error) (*Folder, *Loaded, []string) {
	t.Helper()
	var skipped []string
	f := Open(dir)
	l := f.Newest(fits, func(file string, why error) { skipped = append(skipped, filepath.Base(file)+": "+why.Error()) })
	return f, l, skipped
}

func equal(t *testing.T, p Point, db *statedb.DB, taken []ID, l *Loaded) {
	t.Helper()
	require.NotNil(t, l)
	assert.Equal(t, p, l.Point)
	assert.Equal(t, db.Snapshot().Hash(), l.State.Snapshot().Hash())
	assert.Equal(t, taken, l.IDs)
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	f, l, skipped := reload(t, dir, anything)
	require.Nil(t, l)
	require.Empty(t, skipped)
	for i, n := range []int{0, 5, 5, 1000, 1003} {
		p, db, taken := sample(uint64(n+i+1), n)
		require.NoError(t, f.Save(p, db.Snapshot(), taken[f.ids.count:]))
		var again *Folder
		again, l, skipped = reload(t, dir, anything)
		require.Empty(t, skipped)
		equal(t, p, db, taken, l)
		if i%2 == 1 {
			f = again // the next one goes on after a restart
		}
	}
	files, err := Files(dir)
	require.NoError(t, err)
	assert.Len(t, files, kept)
}

func TestIDsMustFollow(t *testing.T) {
	f := Open(t.TempDir())
	p, db, taken := sample(3, 4)
	assert.ErrorContains(t, f.Save(p, db.Snapshot(), taken[1:]), "4 transaction ids are due, got 3")
}

// TestAnyDamageLeavesTheOneBefore spoils the newest checkpoint's files at many places.
func TestAnyDamageLeavesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir)
	older, olderDB, olderIDs := sample(10, 40)
	require.NoError(t, f.Save(older, olderDB.Snapshot(), olderIDs))
	newer, newerDB, newerIDs := sample(20, 60)
	require.NoError(t, f.Save(newer, newerDB.Snapshot(), newerIDs[40:]))
	newest := filepath.Join(dir, fmt.Sprintf("%s%012d", prefix, 20))
	idFile := filepath.Join(dir, idsFile)
	whole := map[string][]byte{}
	for _, file := range []string{newest, idFile} {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		whole[file] = raw
	}
	try := func(what, file string, raw []byte, want []ID, db *statedb.DB, p Point) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, raw, 0o644))
		_, l, skipped := reload(t, dir, anything)
		require.NotEmpty(t, skipped, what)
		assert.Contains(t, skipped[0], fmt.Sprintf("%012d: damaged", 20), what)
		equal(t, p, db, want, l)
		require.NoError(t, os.WriteFile(file, whole[file], 0o644))
	}
	for at := 0; at < len(whole[newest]); at += 11 {
		spoiled := append([]byte(nil), whole[newest]...)
		spoiled[at] ^= 0x10
		try(fmt.Sprint("flip ", at), newest, spoiled, olderIDs, olderDB, older)
		try(fmt.Sprint("cut ", at), newest, whole[newest][:at], olderIDs, olderDB, older)
	}
	for at := 40 * idBytes; at < 60*idBytes; at += 47 {
		spoiled := append([]byte(nil), whole[idFile]...)
		spoiled[at] ^= 1
		try(fmt.Sprint("flip id ", at), idFile, spoiled, olderIDs, olderDB, older)
		try(fmt.Sprint("cut id ", at), idFile, whole[idFile][:at], olderIDs, olderDB, older)
	}
	// Damage among the older ids spoils both.
	spoiled := append([]byte(nil), whole[idFile]...)
	spoiled[0] ^= 1
	require.NoError(t, os.WriteFile(idFile, spoiled, 0o644))
	again, l, skipped := reload(t, dir, anything)
	assert.Nil(t, l)
	assert.Len(t, skipped, 2)
	// The next one begins anew, and the damaged ones go.
	require.NoError(t, again.Save(newer, newerDB.Snapshot(), newerIDs))
	_, l, skipped = reload(t, dir, anything)
	assert.Empty(t, skipped)
	equal(t, newer, newerDB, newerIDs, l)
}

func TestOneOfAnotherChainIsLeftAside(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir)
	for _, blocks := range []uint64{10, 20} {
		p, db, taken := sample(blocks, int(blocks))
		require.NoError(t, f.Save(p, db.Snapshot(), taken[f.ids.count:]))
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
	assert.Len(t, l.IDs, 10)
}

// TestAnUnfinishedAttemptIsOverwritten: ids were written, the state was not.
func TestAnUnfinishedAttemptIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir)
	p, db, taken := sample(10, 30)
	blocked := filepath.Join(dir, making)
	require.NoError(t, os.Mkdir(blocked, 0o755))
	require.Error(t, f.Save(p, db.Snapshot(), taken))
	_, l, _ := reload(t, dir, anything)
	require.Nil(t, l)
	require.NoError(t, os.Remove(blocked))
	require.NoError(t, f.Save(p, db.Snapshot(), taken))
	_, l, skipped := reload(t, dir, anything)
	assert.Empty(t, skipped)
	equal(t, p, db, taken, l)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\x02ch\x05\x00\x00\x01\x01\x01\x00\x01\x02kv\x01\x01a\x01\x02\x01b"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := reader{rest: raw}
		in.point()
		in.bytes()
		if db := in.state(); !in.failed {
			db.Snapshot().Hash()
		}
	})
}
