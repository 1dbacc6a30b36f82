package load

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

func TestCallsDependOnSeedAndNumberAlone(t *testing.T) {
	for chaincode, names := range map[string][]string{"smallbank": {"mix"}, "kv": {"put", "update", "ycsb50"}} {
		for _, name := range names {
			o := workloadOptions{accounts: 100, valueSize: 64, seed: 5}
			_, a, err := findWorkload(chaincode, name, o)
			require.NoError(t, err)
			_, b, err := findWorkload(chaincode, name, o)
			require.NoError(t, err)
			o.seed = 6
			_, other, err := findWorkload(chaincode, name, o)
			require.NoError(t, err)
			same := 0
			for i := range 100 {
				require.Equal(t, a.call(i), b.call(i))
				if bytes.Equal(bytes.Join(a.call(i), nil), bytes.Join(other.call(i), nil)) {
					same++
				}
			}
			assert.Less(t, same, 20, name)
		}
	}
}

func TestCreateNeverRepeatsAnAccount(t *testing.T) {
	seen := map[string]bool{}
	for range 2 { // two runs on one ledger
		_, w, err := findWorkload("smallbank", "", workloadOptions{accounts: 2, seed: 1})
		require.NoError(t, err)
		for i := range 1000 {
			seen[string(w.call(i)[1])] = true
		}
	}
	assert.Len(t, seen, 2000)
}

func TestHotKeysTakeTheirShare(t *testing.T) {
	c := chooser{workloadOptions{accounts: 1000, hotKeys: 10, hotShare: 0.9, seed: 1}}
	hot := 0
	const n = 10_000
	for i := range n {
		if c.pick(c.random(i)) < 10 {
			hot++
		}
	}
	assert.InDelta(t, 0.9, float64(hot)/n, 0.02)
}

func TestMixNeverPaysItself(t *testing.T) {
	w := &bankMix{chooser{workloadOptions{accounts: 2, seed: 3}}}
	for i := range 200 {
		if c := w.call(i); len(c) == 4 {
			assert.NotEqual(t, c[2], c[3])
		}
	}
}

func TestYCSB50IsHalfReads(t *testing.T) {
	w := newKV(workloadOptions{accounts: 100, valueSize: 8, seed: 1}, "update", 0.5)
	reads := 0
	for i := range 2000 {
		if string(w.call(i)[0]) == "get" {
			reads++
		}
	}
	assert.InDelta(t, 1000, reads, 100)
}

func TestSeriesKeepsEmptySeconds(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	s := newSeries(start)
	s.add(start.Add(100*time.Millisecond), 2*time.Millisecond, true)
	s.add(start.Add(3500*time.Millisecond), 8*time.Millisecond, true)
	s.add(start.Add(3600*time.Millisecond), time.Millisecond, false)
	s.close()
	require.Len(t, s.done, 4)
	assert.Equal(t, []int64{1, 0, 0, 1}, []int64{s.done[0].TPS, s.done[1].TPS, s.done[2].TPS, s.done[3].TPS})
	assert.InDelta(t, 2, s.done[0].P50, 0.01)
	assert.Zero(t, s.done[1].P50)
	assert.InDelta(t, 8, s.done[3].P99, 0.01)
	assert.Equal(t, int64(1), s.done[3].Failed)
	assert.InDelta(t, 1_000_003, s.done[3].Unix, 1e-6)
}

func TestCodesAreSpelledAsTheSpecificationDoes(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.OK: "OK", codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
		codes.Aborted: "ABORTED", codes.Canceled: "CANCELED",
	} {
		assert.Equal(t, want, codeName(code))
	}
}

func TestProgressLineSaysWhereTheRunIs(t *testing.T) {
	p := &pacer{plan: plan{warmup: time.Second, duration: 2 * time.Second}, start: time.Unix(1_000_000, 0)}
	rec := newRecorder(p.start, p.plan)
	for i := range 30 {
		rec.send(p.start)
		rec.finish(outcome{}, p.start, p.start.Add(time.Duration(i)*10*time.Millisecond))
	}
	rec.send(p.start)
	for at, want := range map[time.Duration]string{
		500 * time.Millisecond: "warming up", 1500 * time.Millisecond: "measuring", 3500 * time.Millisecond: "draining",
	} {
		line, total := progressLine(p, rec, counters{committed: 10}, p.start.Add(at), time.Second)
		assert.Contains(t, line, want)
		assert.Contains(t, line, "20.0 tps")
		assert.Contains(t, line, "in flight 1 ")
		assert.Equal(t, int64(30), total.committed, strconv.Itoa(int(at)))
	}
}
