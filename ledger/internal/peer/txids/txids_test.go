package txids

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func anything(uint64, []byte) error { return nil }

func noneSkipped(t *testing.T) func(string, error) {
	return func(file string, why error) { t.Errorf("%s is not used: %s", file, why) }
}

func hashOf(block uint64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, block))
	return sum[:]
}

// taken makes n ids of blocks first to end-1.
func taken(seed, first, end uint64, n int) (out []ID) {
	for i := range n {
		key := sha256.Sum256(fmt.Appendf(nil, "%d %d %d", seed, first, i))
		out = append(out, ID{Key: key, Block: first + uint64(i)*(end-first)/uint64(n), Tx: uint32(i), Code: uint8(i % 12)})
	}
	return out
}

func open(t *testing.T, dir string, fits func(uint64, []byte) error, skipped func(string, error)) *Store {
	t.Helper()
	s, err := Open(dir, nil, fits, skipped)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func check(t *testing.T, s *Store, want []ID) {
	t.Helper()
	for _, id := range want {
		got, ok, err := s.Find(id.Key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, id, got)
	}
	for i := range 1000 {
		_, ok, err := s.Find(sha256.Sum256(fmt.Appendf(nil, "unknown %d", i)))
		require.NoError(t, err)
		require.False(t, ok)
	}
}

// TestEverythingAddedIsFound over many sizes, merges and reopenings, against a plain list.
func TestEverythingAddedIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ids")
	random := rand.New(rand.NewPCG(1, 2))
	s := open(t, dir, anything, noneSkipped(t))
	var all []ID
	for round := range 60 {
		first := s.Blocks()
		end := first + 1 + random.Uint64N(50)
		fresh := taken(uint64(round), first, end, random.IntN(3)*random.IntN(400))
		require.NoError(t, s.Add(end, hashOf(end), fresh))
		require.NoError(t, s.Compact())
		require.Equal(t, end, s.Blocks())
		all = append(all, fresh...)
		if round%7 == 0 {
			require.NoError(t, s.Close())
			s = open(t, dir, anything, noneSkipped(t))
			require.Equal(t, end, s.Blocks())
		}
		if round%10 == 9 {
			check(t, s, all)
		}
	}
	assert.Less(t, len(s.runs), 16, "runs of a size were merged")
	var read []ID
	for _, r := range s.runs {
		first, end, ids, err := ReadFile(r.path)
		require.NoError(t, err)
		require.Equal(t, []uint64{r.first, r.end}, []uint64{first, end})
		read = append(read, ids...)
	}
	assert.Equal(t, all, read)
}

// TestKeysThatShareTheirBeginning fill more than a page: fences cannot tell them apart.
func TestKeysThatShareTheirBeginning(t *testing.T) {
	s := open(t, t.TempDir(), anything, noneSkipped(t))
	var ids []ID
	for i := range 5 * perPage {
		id := ID{Block: 1, Tx: uint32(i)}
		copy(id.Key[:], "the same")
		binary.BigEndian.PutUint32(id.Key[20:], uint32(i))
		if i%perPage == 0 {
			id.Key[0] += byte(i / perPage)
		}
		ids = append(ids, id)
	}
	require.NoError(t, s.Add(2, hashOf(2), ids))
	check(t, s, ids)
}

func TestLookupsBesideMerges(t *testing.T) {
	s := open(t, t.TempDir(), anything, noneSkipped(t))
	ids := taken(1, 0, 10, 500)
	require.NoError(t, s.Add(10, hashOf(10), ids))
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if got, ok, err := s.Find(ids[i%len(ids)].Key); !ok || err != nil || got != ids[i%len(ids)] {
					t.Errorf("%v %v %v", got, ok, err)
					return
				}
			}
		})
	}
	for n := uint64(10); n < 60; n++ {
		require.NoError(t, s.Add(n+1, hashOf(n+1), taken(n, n, n+1, 400)))
		require.NoError(t, s.Compact())
	}
	close(done)
	group.Wait()
}

// TestAKillAtAnyMomentOfAMerge: the new file is there, and so are all, some or none of the old ones.
func TestAKillAtAnyMomentOfAMerge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	var all []ID
	for n := range uint64(fan) {
		ids := taken(n, n*5, n*5+5, 200)
		all = append(all, ids...)
		require.NoError(t, s.Add(n*5+5, hashOf(n*5+5), ids))
	}
	before := filepath.Join(t.TempDir(), "before")
	require.NoError(t, os.CopyFS(before, os.DirFS(dir)))
	require.NoError(t, s.Compact())
	require.Len(t, s.runs, 1)
	old, err := Files(before)
	require.NoError(t, err)
	require.Len(t, old, fan)
	for left := range 1 << fan {
		at := filepath.Join(t.TempDir(), "at")
		require.NoError(t, os.CopyFS(at, os.DirFS(dir)))
		for i, path := range old {
			if left&(1<<i) != 0 {
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(at, filepath.Base(path)), raw, 0o644))
			}
		}
		again := open(t, at, anything, noneSkipped(t))
		require.EqualValues(t, 20, again.Blocks())
		check(t, again, all)
		files, err := Files(at)
		require.NoError(t, err)
		require.Len(t, files, 1, "the old ones are gone")
	}
}

// TestDamageIsSeen: in what Open reads the run is left aside, in a page of records when that is read.
func TestDamageIsSeen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	first, second := taken(1, 0, 5, 300), taken(2, 5, 9, 300)
	require.NoError(t, s.Add(5, hashOf(5), first))
	require.NoError(t, s.Add(9, hashOf(9), second))
	path := s.runs[1].path
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	records := int(pageSize * s.runs[1].pages())
	spoil := func(raw []byte) (opened *Store, skipped []error) {
		at := filepath.Join(t.TempDir(), "at")
		require.NoError(t, os.CopyFS(at, os.DirFS(dir)))
		require.NoError(t, os.WriteFile(filepath.Join(at, filepath.Base(path)), raw, 0o644))
		return open(t, at, anything, func(_ string, why error) { skipped = append(skipped, why) }), skipped
	}
	for at := 0; at < len(whole); at += 61 {
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 2
		again, skipped := spoil(flipped)
		if at >= pageSize && at < pageSize+records {
			require.Empty(t, skipped)
			damaged := 0
			for _, id := range second {
				got, ok, err := again.Find(id.Key)
				if err != nil {
					require.ErrorIs(t, err, ErrDamaged)
					require.NoFileExists(t, again.runs[1].path, "the next start does without it")
					damaged++
					continue
				}
				require.True(t, ok)
				require.Equal(t, id, got)
			}
			require.Positive(t, damaged)
			continue
		}
		require.Len(t, skipped, 1, "byte %d", at)
		require.ErrorIs(t, skipped[0], ErrDamaged)
		require.EqualValues(t, 5, again.Blocks())
		check(t, again, first)
	}
	for size := 0; size < len(whole); size += 977 {
		_, skipped := spoil(whole[:size])
		require.Len(t, skipped, 1)
		require.ErrorIs(t, skipped[0], ErrDamaged)
	}
}

// TestAMergeMeetsADamagedPageOnce: what can be read of that run is found until the next start, which makes it again,
// and later runs are merged without it.
func TestAMergeMeetsADamagedPageOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	var all []ID
	add := func(n uint64) {
		ids := taken(n, n, n+1, 200)
		require.NoError(t, s.Add(n+1, hashOf(n+1), ids))
		all = append(all, ids...)
	}
	for n := range uint64(fan) {
		add(n)
	}
	bad := s.runs[1]
	file, err := os.OpenFile(bad.path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("damaged"), pageSize*bad.pages()) // in its last page of records
	require.NoError(t, errors.Join(err, file.Close()))
	err = s.Compact()
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "the next start makes it again")
	require.NoFileExists(t, bad.path)
	require.NoError(t, s.Compact(), "it has been said")
	for n := fan; n < 3*fan; n++ {
		add(uint64(n))
		require.NoError(t, s.Compact())
	}
	assert.Less(t, len(s.runs), 2+fan+fan/2, "the others are merged")
	lost := 0
	for _, id := range all {
		got, ok, err := s.Find(id.Key)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			require.LessOrEqual(t, id.Block, uint64(1), "of that run, or older and by a false word of its filter")
			lost++
			continue
		}
		require.True(t, ok)
		require.Equal(t, id, got)
	}
	assert.Positive(t, lost)
	require.NoError(t, s.Close())
	s = open(t, dir, anything, noneSkipped(t))
	assert.EqualValues(t, 1, s.Blocks(), "the rest is read again from the blocks")
}

func TestRunsOfAnotherChainAreLeftAside(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, anything, noneSkipped(t))
	ids := taken(1, 0, 5, 30)
	require.NoError(t, s.Add(5, hashOf(5), ids))
	require.NoError(t, s.Add(9, hashOf(9), taken(2, 5, 9, 30)))
	var skipped []string
	s = open(t, dir, func(blocks uint64, hash []byte) error {
		assert.Equal(t, hashOf(blocks), hash)
		if blocks > 5 {
			return fmt.Errorf("%w: it has 5 blocks", ErrForeign)
		}
		return nil
	}, func(file string, why error) { skipped = append(skipped, why.Error()) })
	assert.Equal(t, []string{"not of this chain: it has 5 blocks"}, skipped)
	assert.EqualValues(t, 5, s.Blocks())
	check(t, s, ids)
}

func TestWhatDoesNotFollowIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), anything, noneSkipped(t))
	require.NoError(t, s.Add(5, hashOf(5), nil))
	assert.ErrorContains(t, s.Add(5, hashOf(5), nil), "block 6 and more, and 32 bytes, are accepted")
	assert.ErrorContains(t, s.Add(6, nil, nil), "a hash of 0 bytes")
}

// FuzzOpen gives any bytes as a run's file.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	s, err := Open(dir, nil, anything, func(string, error) {})
	require.NoError(f, err)
	require.NoError(f, s.Add(5, hashOf(5), taken(1, 0, 5, 100)))
	whole, err := os.ReadFile(s.runs[0].path)
	require.NoError(f, err)
	require.NoError(f, s.Close())
	f.Add(whole)
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), prefix+"x")
		require.NoError(t, os.WriteFile(path, raw, 0o644))
		r, err := openRun(path)
		if err != nil {
			return
		}
		_, _, _ = r.find(&[32]byte{1})
		require.NoError(t, r.close())
	})
}

// BenchmarkMiss is the duplicate check of a transaction that is none.
func BenchmarkMiss(b *testing.B) {
	s, err := Open(b.TempDir(), nil, anything, func(string, error) {})
	require.NoError(b, err)
	for n := range uint64(20) {
		require.NoError(b, s.Add(n+1, hashOf(n), taken(n, n, n+1, 50_000)))
		require.NoError(b, s.Compact())
	}
	defer func() { _ = s.Close() }()
	keys := taken(99, 0, 1, 4096)
	for i := 0; b.Loop(); i++ {
		if _, ok, err := s.Find(keys[i%len(keys)].Key); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	b.ReportMetric(float64(len(s.runs)), "runs")
}
