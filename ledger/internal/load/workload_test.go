package load

import (
	"bytes"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

func TestCallsDependOnSeedAndNumberAlone(t *testing.T) {
	for chaincode, names := range map[string][]string{"smallbank": {"mix"}, "kv": {"put", "update", "ycsb50"}, "fabcoin": {"mint"}} {
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
				require.Equal(t, withoutRun(a.call(i)), withoutRun(b.call(i)))
				if bytes.Equal(bytes.Join(a.call(i), nil), bytes.Join(other.call(i), nil)) {
					same++
				}
			}
			assert.Less(t, same, 20, name)
		}
	}
}

// withoutRun takes the run's id from the value of a write to kv.
func withoutRun(c call) call {
	if len(c) == 3 && bytes.HasPrefix(c[1], []byte("key-")) {
		number, rest, _ := bytes.Cut(c[2], []byte("."))
		c[2] = append(bytes.Clone(number), rest[runIDSize:]...)
	}
	return c
}

// TestNoTwoWritesHaveTheSameValue, of one run or of two with the same seed, those of the setup among them.
func TestNoTwoWritesHaveTheSameValue(t *testing.T) {
	for seed := range uint64(20) {
		seen := map[string]bool{}
		made := 0
		for range 2 {
			w := newKV(workloadOptions{accounts: 300, valueSize: uniqueSize, seed: seed, preload: true}, "update", 0)
			calls := w.setup()
			for i := range 300 {
				calls = append(calls, w.call(i), w.call(math.MaxInt-i))
			}
			for _, c := range calls {
				require.Len(t, c[2], uniqueSize)
				seen[string(c[2])] = true
			}
			made += len(calls)
		}
		require.Zero(t, made-len(seen), seed)
	}
}

// TestSmallValuesDifferToo as far as their size has room for the number, also where others went before: a database that is
// given a value again writes nothing.
func TestSmallValuesDifferToo(t *testing.T) {
	for size := 1; size < uniqueSize; size++ {
		w := newKV(workloadOptions{accounts: 10, valueSize: size, seed: uint64(size)}, "update", 0)
		numbers := int(min(2000, math.Pow10(size)))
		for _, first := range []int{0, 1, numbers / 2, numbers, 123_456, 1 << 40} {
			seen := map[string]bool{}
			for i := range numbers {
				value := w.value(first + i)
				require.Len(t, value, size)
				seen[string(value)] = true
			}
			assert.Len(t, seen, numbers, "%d bytes from %d on", size, first)
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
	c := newChooser(workloadOptions{accounts: 1000, hotKeys: 10, hotShare: 0.9, seed: 1})
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
	w := &bankMix{newChooser(workloadOptions{accounts: 2, seed: 3})}
	for i := range 200 {
		if c := w.call(i); len(c) == 4 {
			assert.NotEqual(t, c[2], c[3])
		}
	}
}

func TestZipfsLawFavoursTheFirst(t *testing.T) {
	const n, draws = 1000, 10_000
	c := newChooser(workloadOptions{accounts: n, zipf: 0.99, seed: 1})
	counts := make([]int, n)
	for i := range draws {
		counts[c.pick(c.random(i))]++
	}
	var zeta float64
	for i := 1; i <= n; i++ {
		zeta += math.Pow(float64(i), -0.99)
	}
	assert.InEpsilon(t, draws/zeta, counts[0], 0.1)
}

func TestInsertsNeverRepeatAKeyAndReadWhatIsThere(t *testing.T) {
	_, w, err := findWorkload("kv", "ycsb90", workloadOptions{accounts: 50, valueSize: 1024, seed: 1})
	require.NoError(t, err)
	there, made, reads := map[string]bool{}, map[string]bool{}, 0
	for _, c := range w.setup() {
		assert.Equal(t, "put", string(c[0]))
		there[string(c[1])] = true
	}
	assert.Len(t, there, 50)
	const n = 2000
	for i := range n {
		c := w.call(i)
		if string(c[0]) == "get" {
			reads++
			assert.True(t, there[string(c[1])])
			continue
		}
		assert.Equal(t, "insert", string(c[0]))
		assert.Len(t, c[2], 1024)
		made[string(c[1])] = true
	}
	assert.InDelta(t, n/10, reads, 50)
	assert.Len(t, made, n-reads)
	_, plain, err := findWorkload("kv", "insert", workloadOptions{accounts: 50, valueSize: 8, seed: 1})
	require.NoError(t, err)
	assert.Empty(t, plain.setup(), "without reads nothing has to be there")
}

func TestADatabasesKeysAreThereBeforeTheyAreUpdated(t *testing.T) {
	o := workloadOptions{accounts: 20, valueSize: 8, seed: 1}
	assert.Empty(t, newKV(o, "update", 0.5).setup())
	o.preload = true
	assert.Len(t, newKV(o, "update", 0.5).setup(), 20)
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
		rec.finish(outcome{}, newCall("put", "k"), p.start, p.start.Add(time.Duration(i)*10*time.Millisecond))
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
