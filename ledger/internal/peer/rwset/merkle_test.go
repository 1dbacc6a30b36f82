package rwset

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// manyKeys are n keys in order.
func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%06d", i)
	}
	return keys
}

// readsOf are what a query has read; every third version has a hash, and the first is all zeros.
func readsOf(n int) []*statedb.Entry {
	reads := make([]*statedb.Entry, n)
	for i, key := range manyKeys(n) {
		reads[i] = &statedb.Entry{Key: key, Version: statedb.Version{Block: uint64(i) * 1000, Tx: uint64(i % 7)}}
		if i%3 == 1 {
			reads[i].Version.Hash = "running hash"
		}
	}
	return reads
}

// slowSummary hashes level by level, each of all at once: the obvious way, with protobuf's own encoder. As Fabric's, a lone
// hash that is left over goes up as it is.
func slowSummary(t *testing.T, degree int, reads []*statedb.Entry) *kvrwsetpb.QueryReadsMerkleSummary {
	t.Helper()
	var hashes [][]byte
	for len(reads) > 0 {
		n := min(degree+1, len(reads))
		some := &kvrwsetpb.QueryReads{}
		for _, e := range reads[:n] {
			some.KvReads = append(some.KvReads, encodeRead(e.Key, e))
		}
		raw, err := proto.Marshal(some)
		require.NoError(t, err)
		hash := sha256.Sum256(raw)
		hashes, reads = append(hashes, hash[:]), reads[n:]
	}
	level := uint32(1)
	for ; len(hashes) > degree; level++ {
		var up [][]byte
		for len(hashes) > 0 {
			n := min(degree+1, len(hashes))
			hash := sha256.Sum256(bytes.Join(hashes[:n], nil))
			one := hash[:]
			if n == 1 {
				one = hashes[0]
			}
			up, hashes = append(up, one), hashes[n:]
		}
		hashes = up
	}
	return &kvrwsetpb.QueryReadsMerkleSummary{MaxDegree: uint32(degree), MaxLevel: level, MaxLevelHashes: hashes}
}

func TestTheSummaryIsFabrics(t *testing.T) {
	for degree := 2; degree < 5; degree++ {
		for n := degree + 1; n < 150; n++ {
			tree := &merkle{degree: degree}
			for _, e := range readsOf(n) {
				tree.add(e.Key, e.Version)
			}
			assert.True(t, proto.Equal(slowSummary(t, degree, readsOf(n)), tree.summary()), "%d reads by %d", n, degree)
		}
	}
}

func readAll(t *testing.T, db *statedb.DB) *Simulator {
	t.Helper()
	sim := NewSimulator(db.Snapshot())
	_, more, err := sim.Range("cc", "k", "l").Next(1_000_000)
	require.NoError(t, err)
	require.False(t, more)
	return sim
}

// TestALongRangeIsEncodedByItsHashes: its size does not grow with what was read.
func TestALongRangeIsEncodedByItsHashes(t *testing.T) {
	raw, err := readAll(t, stateOf(manyKeys(degree)...)).Encode()
	require.NoError(t, err)
	assert.Contains(t, string(raw), "k000049", "a short one names its keys")
	raw, err = readAll(t, stateOf(manyKeys(20_000)...)).Encode()
	require.NoError(t, err)
	assert.Less(t, len(raw), 2000)
}

// TestConflictsOfLongRanges: of 6,000 keys, each of which a transaction has read.
func TestConflictsOfLongRanges(t *testing.T) {
	put := func(key string) statedb.Write { return statedb.Write{Namespace: "cc", Key: key} }
	del := func(key string) statedb.Write { return statedb.Write{Namespace: "cc", Key: key, Delete: true} }
	const valid, phantom = peerpb.TxValidationCode_VALID, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT
	for name, c := range map[string]struct {
		then statedb.Write
		want peerpb.TxValidationCode
	}{
		"first written":          {put("k000000"), phantom},
		"one between written":    {put("k003000"), phantom},
		"last written":           {put("k005999"), phantom},
		"first deleted":          {del("k000000"), phantom},
		"last deleted":           {del("k005999"), phantom},
		"key appears":            {put("k0030001"), phantom},
		"key appears at the end": {put("kz"), phantom},
		"before the start":       {put("j"), valid},
		"the end is excluded":    {put("l"), valid},
	} {
		t.Run(name, func(t *testing.T) {
			db := stateOf(manyKeys(6000)...)
			set := decode(t, readAll(t, db))
			assert.Equal(t, valid, set.Check(db), "before")
			db.Apply(statedb.Version{Block: 2}, []statedb.Write{c.then})
			assert.Equal(t, c.want, set.Check(db), "after")
		})
	}
}

func TestALongRangeThatStoppedEndsWithItsLastKey(t *testing.T) {
	db := stateOf(manyKeys(300)...)
	sim := NewSimulator(db.Snapshot())
	q := sim.Range("cc", "k", "l")
	for range 2 {
		_, more, err := q.Next(100)
		require.NoError(t, err)
		require.True(t, more)
	}
	set := decode(t, sim)
	for _, c := range []struct {
		key  string
		want peerpb.TxValidationCode
	}{{"k000200", peerpb.TxValidationCode_VALID}, {"k000199", peerpb.TxValidationCode_PHANTOM_READ_CONFLICT}} {
		db.Apply(statedb.Version{Block: 2}, []statedb.Write{{Namespace: "cc", Key: c.key}})
		assert.Equal(t, c.want, set.Check(db), c.key)
	}
}

// hashed is a set of queries by hashes over all keys of a namespace, each with this summary.
func hashed(t *testing.T, queries int, summary *kvrwsetpb.QueryReadsMerkleSummary) []byte {
	t.Helper()
	one := &kvrwsetpb.RangeQueryInfo{ItrExhausted: true, ReadsInfo: &kvrwsetpb.RangeQueryInfo_ReadsMerkleHashes{ReadsMerkleHashes: summary}}
	kv := &kvrwsetpb.KVRWSet{}
	for range queries {
		kv.RangeQueriesInfo = append(kv.RangeQueriesInfo, one)
	}
	return oneSpace(t, kv)
}

func TestHashesOfFewReadsAreNoMatch(t *testing.T) {
	reads := readsOf(degree)
	db := statedb.New()
	for _, e := range reads {
		db.Apply(e.Version, []statedb.Write{{Namespace: "cc", Key: e.Key, Value: []byte("v")}})
	}
	set, err := Decode(hashed(t, 1, slowSummary(t, degree, reads)))
	require.NoError(t, err)
	assert.Equal(t, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT, set.Check(db), "an endorser names so few")
}

// TestWhatARangeMakesPeersReadIsBounded: a few bytes name any part of the state, any number of times. No simulation reads
// more than the bound, so what is beyond it is none's.
func TestWhatARangeMakesPeersReadIsBounded(t *testing.T) {
	const keys = 64
	db := statedb.New()
	value := make([]byte, maxRecorded/keys/2)
	for i, key := range manyKeys(keys) {
		db.Apply(statedb.Version{Block: 1, Tx: uint64(i)}, []statedb.Write{{Namespace: "cc", Key: key, Value: value}})
	}
	summary := slowSummary(t, degree, db.Snapshot().Scan("cc", "", "", keys))
	for queries, want := range map[int]peerpb.TxValidationCode{
		1: peerpb.TxValidationCode_VALID, 3: peerpb.TxValidationCode_PHANTOM_READ_CONFLICT,
	} {
		set, err := Decode(hashed(t, queries, summary))
		require.NoError(t, err)
		assert.Equal(t, want, set.Check(db), "%d queries", queries)
	}
}

func TestASimulationReadsNoMoreResultsThanFabrics(t *testing.T) {
	sim := NewSimulator(stateOf(manyKeys(100_000)...).Snapshot())
	q := sim.Range("cc", "k", "l")
	entries, more, err := q.Next(1_000_000)
	require.NoError(t, err)
	require.True(t, more)
	assert.Less(t, len(entries), 100_000)
	assert.Equal(t, sim.snapshot.Scan("cc", entries[len(entries)-1].Key, "l", 2)[1].Key, q.NextKey())
	_, err = sim.Encode()
	require.NoError(t, err, "what it has read is within the bound")
	_, _, err = q.Next(1)
	assert.ErrorIs(t, err, ErrTooLarge)
}

// visited counts the entries that are looked at.
type visited struct {
	*statedb.DB
	entries int
}

func (v *visited) Walk(namespace, start, end string, visit func(statedb.Entry) bool) {
	v.DB.Walk(namespace, start, end, func(e statedb.Entry) bool {
		v.entries++
		return visit(e)
	})
}

// TestARangeThatHasGrownIsReadNoFurtherThanItsHashes: one hash more than a level holds is of the next level.
func TestARangeThatHasGrownIsReadNoFurtherThanItsHashes(t *testing.T) {
	keys, few := manyKeys(20_000), degree*(degree+1)
	set := decode(t, readAll(t, stateOf(keys[:few]...)))
	now := &visited{DB: stateOf(keys...)}
	assert.Equal(t, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT, set.Check(now))
	assert.Equal(t, few+degree+1, now.entries)
}

// TestLongRangesByTheirReadsAreChecked: earlier endorsers did not hash, and their transactions are in chains.
func TestLongRangesByTheirReadsAreChecked(t *testing.T) {
	db := stateOf(manyKeys(200)...)
	reads := &kvrwsetpb.QueryReads{}
	for _, e := range db.Snapshot().Scan("cc", "k", "l", 200) {
		reads.KvReads = append(reads.KvReads, encodeRead(e.Key, e))
	}
	set, err := Decode(oneSpace(t, &kvrwsetpb.KVRWSet{RangeQueriesInfo: []*kvrwsetpb.RangeQueryInfo{{
		StartKey: "k", EndKey: "l", ItrExhausted: true, ReadsInfo: &kvrwsetpb.RangeQueryInfo_RawReads{RawReads: reads},
	}}}))
	require.NoError(t, err)
	assert.Equal(t, peerpb.TxValidationCode_VALID, set.Check(db))
	db.Apply(statedb.Version{Block: 2}, []statedb.Write{{Namespace: "cc", Key: "k000199"}})
	assert.Equal(t, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT, set.Check(db))
}
