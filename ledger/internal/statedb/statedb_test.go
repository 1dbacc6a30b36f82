package statedb

import (
	"fmt"
	"math/rand"
	"runtime"
	"sort"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScanBounds(t *testing.T) {
	db := New()
	for i, key := range []string{"a", "b", "c", "d"} {
		db.Apply(Version{Block: 1, Tx: uint64(i)}, []Write{{Namespace: "ns", Key: key, Value: []byte(key)}})
	}
	keys := func(entries []*Entry) (out string) {
		for _, e := range entries {
			out += e.Key
		}
		return out
	}
	s := db.Snapshot()
	assert.Equal(t, "bc", keys(s.Scan("ns", "b", "d", 10)))
	assert.Equal(t, "bcd", keys(s.Scan("ns", "b", "", 10)))
	assert.Equal(t, "ab", keys(s.Scan("ns", "", "", 2)))
	var walked []*Entry
	db.Walk("ns", "aa", "zz", func(e Entry) bool {
		walked = append(walked, &e)
		return e.Key != "c"
	})
	assert.Equal(t, "bc", keys(walked))
	assert.Empty(t, s.Scan("ns", "d", "b", 10))
	assert.Empty(t, s.Scan("ns", "", "", 0))
	assert.Empty(t, s.Scan("other", "", "", 10))
	assert.Nil(t, s.Get("other", "a"))
}

// TestSnapshotsStayWhatTheyWere compares many snapshots with plain maps that were
// copied at the same moments.
func TestSnapshotsStayWhatTheyWere(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	db, model := New(), map[string]*Entry{}
	type pair struct {
		snap  *Snapshot
		model map[string]*Entry
	}
	var taken []pair
	for i := range 3000 {
		key := fmt.Sprintf("key%03d", r.Intn(400))
		w := Write{Namespace: "ns", Key: key, Value: []byte{byte(i), byte(i >> 8)}, Delete: r.Intn(4) == 0}
		v := Version{Block: uint64(i)}
		db.Apply(v, []Write{w})
		if w.Delete {
			delete(model, key)
		} else {
			model[key] = &Entry{key, string(w.Value), v}
		}
		if r.Intn(20) == 0 {
			copied := make(map[string]*Entry, len(model))
			for k, e := range model {
				copied[k] = e
			}
			taken = append(taken, pair{db.Snapshot(), copied})
		}
	}
	for _, p := range taken {
		require.Equal(t, len(p.model), p.snap.Len())
		var keys []string
		for k, want := range p.model {
			keys = append(keys, k)
			require.Equal(t, want, p.snap.Get("ns", k))
		}
		sort.Strings(keys)
		var scanned []string
		for _, e := range p.snap.Scan("ns", "", "", 1000) {
			scanned = append(scanned, e.Key)
		}
		require.Equal(t, keys, scanned)
	}
}

func TestHashTellsEveryPart(t *testing.T) {
	hash := func(version Version, writes ...Write) [32]byte {
		db := New()
		db.Apply(version, writes)
		return db.Snapshot().Hash()
	}
	base := hash(Version{Block: 1, Tx: 2}, Write{Namespace: "n", Key: "k", Value: []byte("v")})
	assert.Equal(t, base, hash(Version{Block: 1, Tx: 2}, Write{Namespace: "n", Key: "k", Value: []byte("v")}))
	for name, other := range map[string][32]byte{
		"version":   hash(Version{Block: 1, Tx: 3}, Write{Namespace: "n", Key: "k", Value: []byte("v")}),
		"order":     hash(Version{Block: 1, Tx: 2, Hash: "h"}, Write{Namespace: "n", Key: "k", Value: []byte("v")}),
		"namespace": hash(Version{Block: 1, Tx: 2}, Write{Namespace: "m", Key: "k", Value: []byte("v")}),
		"border":    hash(Version{Block: 1, Tx: 2}, Write{Namespace: "nk", Key: "", Value: []byte("v")}),
		"value":     hash(Version{Block: 1, Tx: 2}, Write{Namespace: "n", Key: "k", Value: []byte("w")}),
		"empty":     New().Snapshot().Hash(),
	} {
		assert.NotEqual(t, base, other, name)
	}
}

// TestReadersAndTheWriterDoNotMeet: every snapshot shows the two keys that each
// transaction writes together as equal. Run with -race.
func TestReadersAndTheWriterDoNotMeet(t *testing.T) {
	db := New()
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := db.Snapshot()
				a, b := s.Get("ns", "a"), s.Get("ns", "b")
				if (a == nil) != (b == nil) || (a != nil && a.Version != b.Version) {
					t.Error("a snapshot shows half a transaction")
					return
				}
				s.Scan("ns", "", "", 10)
			}
		}()
	}
	for i := range 5000 {
		db.Apply(Version{Block: uint64(i)}, []Write{
			{Namespace: "ns", Key: "a", Value: []byte("x")}, {Namespace: "ns", Key: fmt.Sprint("other", i%100)},
			{Namespace: "ns", Key: "b", Value: []byte("x")},
		})
	}
	close(stop)
	readers.Wait()
}

func BenchmarkSnapshotThenApply(b *testing.B) {
	db := New()
	for i := range 100_000 {
		db.Apply(Version{}, []Write{{Namespace: "ns", Key: fmt.Sprintf("account%06d", i), Value: []byte("x")}})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		db.Snapshot().Get("ns", "account000001")
		db.Apply(Version{Block: uint64(i)}, []Write{{Namespace: "ns", Key: fmt.Sprintf("account%06d", i*7919%100_000), Value: []byte("y")}})
	}
}

// BenchmarkCollection is of one cycle of the garbage collector over a state of 400,000 keys.
func BenchmarkCollection(b *testing.B) {
	const keys = 400_000
	db := New()
	for i := range keys {
		key, value := fmt.Sprintf("account%06d", i*7919%keys), fmt.Appendf(nil, "1000 1000 customer %06d", i)
		db.Apply(Version{Block: uint64(i)}, []Write{{Namespace: "ns", Key: key, Value: value}})
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	for b.Loop() {
		runtime.GC()
	}
	b.ReportMetric(float64(memory.HeapAlloc)/keys, "B/key")
	runtime.KeepAlive(db)
}
