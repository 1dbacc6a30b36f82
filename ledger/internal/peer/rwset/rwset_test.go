package rwset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
)

// stateOf fills namespace "cc" with keys in one transaction each.
func stateOf(keys ...string) *statedb.DB {
	db := statedb.New()
	for i, key := range keys {
		db.Apply(statedb.Version{Block: 1, Tx: uint64(i)}, []statedb.Write{{Namespace: "cc", Key: key, Value: []byte(key)}})
	}
	return db
}

// oneSpace encodes a set of the namespace "cc" alone.
func oneSpace(t *testing.T, kv *kvrwsetpb.KVRWSet) []byte {
	t.Helper()
	inner, err := proto.Marshal(kv)
	require.NoError(t, err)
	raw, err := proto.Marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{{Namespace: "cc", Rwset: inner}}})
	require.NoError(t, err)
	return raw
}

func decode(t *testing.T, s *Simulator) *Set {
	t.Helper()
	raw, err := s.Encode()
	require.NoError(t, err)
	set, err := Decode(raw)
	require.NoError(t, err)
	return set
}

func TestReadsSeeTheCommittedStateOnly(t *testing.T) {
	sim := NewSimulator(stateOf("a").Snapshot())
	require.NoError(t, sim.Put("cc", "a", []byte("new")))
	require.NoError(t, sim.Delete("cc", "b"))
	got, err := sim.Get("cc", "a")
	require.NoError(t, err)
	assert.Equal(t, "a", string(got))
	assert.ErrorContains(t, sim.Put("cc", "", nil), "empty key")
	set := decode(t, sim)
	assert.Equal(t, []statedb.Write{
		{Namespace: "cc", Key: "a", Value: []byte("new")}, {Namespace: "cc", Key: "b", Delete: true},
	}, set.Writes)
}

// TestAnEmptyValueRemovesTheKey, whether the endorser has marked it so or not: reads could not tell it from no key, but
// range queries would.
func TestAnEmptyValueRemovesTheKey(t *testing.T) {
	sim := NewSimulator(stateOf("a").Snapshot())
	require.NoError(t, sim.Put("cc", "a", []byte{}))
	unmarked, err := proto.Marshal(&kvrwsetpb.KVRWSet{Writes: []*kvrwsetpb.KVWrite{{Key: "a"}}})
	require.NoError(t, err)
	raw, err := proto.Marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{{Namespace: "cc", Rwset: unmarked}}})
	require.NoError(t, err)
	other, err := Decode(raw)
	require.NoError(t, err)
	for _, set := range []*Set{decode(t, sim), other} {
		db := stateOf("a", "b")
		db.Apply(statedb.Version{Block: 2}, set.Writes)
		assert.Equal(t, 1, db.Snapshot().Len())
	}
}

func TestEncodingDoesNotDependOnTheOrderOfCalls(t *testing.T) {
	encode := func(keys ...string) []byte {
		sim := NewSimulator(stateOf("a", "b").Snapshot())
		for _, key := range keys {
			ns, k, _ := strings.Cut(key, "/")
			_, err := sim.Get(ns, k)
			require.NoError(t, err)
			require.NoError(t, sim.Put(ns, k, []byte(k)))
		}
		raw, err := sim.Encode()
		require.NoError(t, err)
		return raw
	}
	assert.Equal(t, encode("cc/a", "cc/b", "aa/x"), encode("aa/x", "cc/b", "cc/a", "cc/b"))
}

// TestConflicts: what a transaction read, what happened since, what becomes of it.
func TestConflicts(t *testing.T) {
	readA := func(s *Simulator) { _, _ = s.Get("cc", "a") }
	readNone := func(s *Simulator) { _, _ = s.Get("cc", "none") }
	all := func(s *Simulator) { _, _, _ = s.Range("cc", "b", "e").Next(10) }
	first2 := func(s *Simulator) { _, _, _ = s.Range("cc", "b", "").Next(2) }
	toTheEnd := func(s *Simulator) { _, _, _ = s.Range("cc", "d", "").Next(10) }
	opened := func(s *Simulator) { s.Range("cc", "a", "") }
	put := func(key string) statedb.Write { return statedb.Write{Namespace: "cc", Key: key} }
	del := func(key string) statedb.Write { return statedb.Write{Namespace: "cc", Key: key, Delete: true} }
	const valid, mvcc, phantom = peerpb.TxValidationCode_VALID, peerpb.TxValidationCode_MVCC_READ_CONFLICT, peerpb.TxValidationCode_PHANTOM_READ_CONFLICT
	for name, c := range map[string]struct {
		run  func(*Simulator)
		then statedb.Write
		want peerpb.TxValidationCode
	}{
		"unrelated write":               {readA, put("b"), valid},
		"same key, other namespace":     {readA, statedb.Write{Namespace: "xx", Key: "a"}, valid},
		"read key written":              {readA, put("a"), mvcc},
		"read key deleted":              {readA, del("a"), mvcc},
		"missing key appears":           {readNone, put("none"), mvcc},
		"missing key stays missing":     {readNone, del("none"), valid},
		"range: member written":         {all, put("c"), phantom},
		"range: member deleted":         {all, del("d"), phantom},
		"range: key appears":            {all, put("bb"), phantom},
		"range: the end is excluded":    {all, put("e"), valid},
		"range: before the start":       {all, put("a"), valid},
		"stopped: behind what was seen": {first2, put("d"), valid},
		"stopped: right behind it":      {first2, put("c\x00"), valid},
		"stopped: last seen written":    {first2, put("c"), phantom},
		"stopped: key in between":       {first2, put("bb"), phantom},
		"open end: key appears":         {toTheEnd, put("zz"), phantom},
		"opened and never read":         {opened, put("a"), valid},
	} {
		t.Run(name, func(t *testing.T) {
			db := stateOf("a", "b", "c", "d")
			sim := NewSimulator(db.Snapshot())
			c.run(sim)
			set := decode(t, sim)
			assert.Equal(t, valid, set.Check(db), "before")
			db.Apply(statedb.Version{Block: 2}, []statedb.Write{c.then})
			assert.Equal(t, c.want, set.Check(db), "after")
		})
	}
}

func TestQueryPages(t *testing.T) {
	var keys []string
	for i := range 25 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
	}
	q := NewSimulator(stateOf(keys...).Snapshot()).Range("cc", "k05", "k25")
	var got []string
	for more := true; more; {
		assert.Equal(t, keys[5+len(got)], q.NextKey())
		var page []*statedb.Entry
		var err error
		page, more, err = q.Next(10)
		require.NoError(t, err)
		for _, e := range page {
			got = append(got, e.Key)
		}
	}
	assert.Equal(t, keys[5:], got)
	rest, more, err := q.Next(10)
	require.NoError(t, err)
	assert.False(t, more)
	assert.Empty(t, rest)
}

func TestSimulationIsBounded(t *testing.T) {
	sim := NewSimulator(statedb.New().Snapshot())
	value := make([]byte, maxRecorded/2)
	require.NoError(t, sim.Put("cc", "a", value))
	assert.ErrorIs(t, sim.Put("cc", "b", value), ErrTooLarge)
}

// TestAQueryWithoutResultsCounts: it is recorded and checked again all the same.
func TestAQueryWithoutResultsCounts(t *testing.T) {
	sim, opened := NewSimulator(statedb.New().Snapshot()), 0
	for ; opened <= maxRecorded/resultBytes; opened++ {
		if _, _, err := sim.Range("cc", "a", "b").Next(1); err != nil {
			require.ErrorIs(t, err, ErrTooLarge)
			break
		}
	}
	assert.Equal(t, maxRecorded/(resultBytes+2), opened)
	assert.Len(t, sim.spaces["cc"].ranges, opened, "one that is refused leaves nothing")
}

func TestDecodeRefuses(t *testing.T) {
	marshal := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		return raw
	}
	ns := func(name string, kv *kvrwsetpb.KVRWSet) *rwsetpb.NsReadWriteSet {
		return &rwsetpb.NsReadWriteSet{Namespace: name, Rwset: marshal(kv)}
	}
	empty := &kvrwsetpb.KVRWSet{}
	for name, raw := range map[string][]byte{
		"garbage":       {0xff},
		"data model":    marshal(&rwsetpb.TxReadWriteSet{DataModel: 7}),
		"no name":       marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{ns("", empty)}}),
		"twice":         marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{ns("a", empty), ns("a", empty)}}),
		"empty key":     marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{ns("a", &kvrwsetpb.KVRWSet{Writes: []*kvrwsetpb.KVWrite{{}}})}}),
		"inner garbage": marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{{Namespace: "a", Rwset: []byte{0xff}}}}),
		"no hashes":     hashed(t, 1, nil),
		"other degree":  hashed(t, 1, &kvrwsetpb.QueryReadsMerkleSummary{MaxDegree: 51, MaxLevel: 1, MaxLevelHashes: [][]byte{{1}}}),
	} {
		_, err := Decode(raw)
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
}

func FuzzDecode(f *testing.F) {
	sim := NewSimulator(stateOf("a", "b", "c").Snapshot())
	_, _ = sim.Get("cc", "a")
	_, _, _ = sim.Range("cc", "", "").Next(2)
	_ = sim.Put("cc", "z", []byte("1"))
	raw, err := sim.Encode()
	require.NoError(f, err)
	f.Add(raw)
	db := stateOf(append(manyKeys(100), "a", "b", "c")...)
	sim = NewSimulator(db.Snapshot())
	_, _, _ = sim.Range("cc", "", "").Next(200)
	raw, err = sim.Encode()
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, data []byte) {
		if set, err := Decode(data); err == nil {
			set.Check(db)
		}
	})
}

// TestWhatWouldBePassedOverIsRefused: Fabric's fields for private data and for policies of single keys.
func TestWhatWouldBePassedOverIsRefused(t *testing.T) {
	extra := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), []byte("metadata_writes"))
	marshal := func(m proto.Message) []byte {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		return raw
	}
	kv := marshal(&kvrwsetpb.KVRWSet{Writes: []*kvrwsetpb.KVWrite{{Key: "a"}}})
	inner := func(kv []byte) *rwsetpb.NsReadWriteSet { return &rwsetpb.NsReadWriteSet{Namespace: "cc", Rwset: kv} }
	wrap := func(ns *rwsetpb.NsReadWriteSet) []byte {
		return marshal(&rwsetpb.TxReadWriteSet{NsRwset: []*rwsetpb.NsReadWriteSet{ns}})
	}
	_, err := Decode(wrap(inner(kv)))
	require.NoError(t, err)
	private := inner(kv)
	private.ProtoReflect().SetUnknown(extra)
	for name, raw := range map[string][]byte{
		"KVRWSet": wrap(inner(append(kv, extra...))), "NsReadWriteSet": wrap(private), "TxReadWriteSet": append(wrap(inner(kv)), extra...),
	} {
		_, err := Decode(raw)
		require.ErrorIs(t, err, ErrMalformed, name)
		assert.ErrorContains(t, err, "field 4 of "+name+" is not accepted")
	}
}

// TestAContractThatGoesOnBeyondTheBoundIsNotEndorsed, whatever it makes of the error; a query has not moved by what it was
// refused.
func TestAContractThatGoesOnBeyondTheBoundIsNotEndorsed(t *testing.T) {
	sim := NewSimulator(stateOf("a", "b", "c").Snapshot())
	q := sim.Range("cc", "", "")
	_, more, err := q.Next(1)
	require.NoError(t, err)
	require.True(t, more)
	sim.size = maxRecorded - 1
	for range 2 {
		entries, _, err := q.Next(10)
		assert.Empty(t, entries)
		require.ErrorIs(t, err, ErrTooLarge)
		assert.Equal(t, "b", q.NextKey())
		assert.False(t, q.exhausted)
	}
	_, err = sim.Encode()
	assert.ErrorIs(t, err, ErrTooLarge)
}
