package load

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// workload says what transaction i does. A call depends on i and the seed alone,
// so that runs can be repeated whatever the timing.
type workload interface {
	// setup is the list of transactions that must be in place before the run.
	setup() []call
	call(i int) call
}

// call is a function's name followed by its arguments.
type call [][]byte

func newCall(words ...string) call {
	c := make(call, len(words))
	for i, w := range words {
		c[i] = []byte(w)
	}
	return c
}

// workloadOptions are the knobs that workloads share.
type workloadOptions struct {
	accounts  int // accounts or keys that calls choose from
	hotKeys   int // the first so many of them are hot; 0: all alike
	hotShare  float64
	valueSize int // bytes
	seed      uint64
}

// workloads by chaincode and name; the first of each is its default.
var workloads = map[string][]struct {
	name string
	make func(workloadOptions) workload
}{
	"smallbank": {
		{"create", func(o workloadOptions) workload { return &bankCreate{run: newRunID(), o: o} }},
		{"mix", func(o workloadOptions) workload { return &bankMix{chooser{o}} }},
	},
	"kv": {
		{"put", func(o workloadOptions) workload { return newKV(o, "put", 0) }},
		{"update", func(o workloadOptions) workload { return newKV(o, "update", 0) }},
		{"ycsb50", func(o workloadOptions) workload { return newKV(o, "update", 0.5) }},
	},
}

func findWorkload(chaincode, name string, o workloadOptions) (string, workload, error) {
	known, ok := workloads[chaincode]
	if !ok {
		return "", nil, fmt.Errorf("there is no workload for chaincode %q: %s are accepted", chaincode,
			strings.Join(slices.Sorted(maps.Keys(workloads)), ", "))
	}
	var names []string
	for _, w := range known {
		if w.name == name || name == "" {
			return w.name, w.make(o), nil
		}
		names = append(names, w.name)
	}
	return "", nil, fmt.Errorf("chaincode %s has no workload %q: %s are accepted", chaincode, name, strings.Join(names, ", "))
}

// newRunID keeps the accounts that two runs create on one ledger apart.
func newRunID() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // it is documented never to fail
	return hex.EncodeToString(id[:])
}

// chooser draws accounts or keys.
type chooser struct{ workloadOptions }

func (c chooser) random(i int) *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(c.seed, uint64(i)))
}

func (c chooser) pick(r *mathrand.Rand) int {
	switch {
	case c.hotKeys == 0 || c.hotKeys >= c.accounts:
		return r.IntN(c.accounts)
	case r.Float64() < c.hotShare:
		return r.IntN(c.hotKeys)
	default:
		return c.hotKeys + r.IntN(c.accounts-c.hotKeys)
	}
}

// initialBalance and maxAmount are those of Caliper's smallbank.
const (
	initialBalance = "1000000"
	maxAmount      = 200
)

// bankCreate makes a new account with each transaction: no two conflict.
type bankCreate struct {
	run string
	o   workloadOptions
}

func (w *bankCreate) setup() []call { return nil }

func (w *bankCreate) call(i int) call {
	id := w.run + "-" + strconv.Itoa(i)
	return newCall("create_account", id, "customer "+id, initialBalance, initialBalance)
}

// bankMix is Caliper's "modify": the five operations alike often, on accounts
// that are made first.
type bankMix struct{ chooser }

func (w *bankMix) setup() []call {
	calls := make([]call, w.accounts)
	for i := range calls {
		id := strconv.Itoa(i)
		calls[i] = newCall("create_account", id, "customer "+id, initialBalance, initialBalance)
	}
	return calls
}

func (w *bankMix) call(i int) call {
	r := w.random(i)
	amount := strconv.Itoa(1 + r.IntN(maxAmount))
	one, other := w.pair(r)
	switch r.IntN(5) {
	case 0:
		return newCall("transact_savings", amount, one)
	case 1:
		return newCall("deposit_checking", amount, one)
	case 2:
		return newCall("send_payment", amount, one, other)
	case 3:
		return newCall("write_check", amount, one)
	default:
		return newCall("amalgamate", one, other)
	}
}

// pair draws two different accounts.
func (w *bankMix) pair(r *mathrand.Rand) (string, string) {
	one, other := w.pick(r), w.pick(r)
	if one == other {
		other = (other + 1) % w.accounts
	}
	return strconv.Itoa(one), strconv.Itoa(other)
}

// kv writes values of one size; a share of its transactions only read.
type kv struct {
	chooser
	function string
	reads    float64
	filler   []byte
}

func newKV(o workloadOptions, function string, reads float64) *kv {
	w := &kv{chooser: chooser{o}, function: function, reads: reads, filler: make([]byte, o.valueSize)}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	r := w.random(-1)
	for i := range w.filler {
		w.filler[i] = letters[r.IntN(len(letters))]
	}
	return w
}

func (w *kv) setup() []call { return nil }

func (w *kv) call(i int) call {
	r := w.random(i)
	key := append([]byte("key-"), strconv.Itoa(w.pick(r))...)
	if w.reads > 0 && r.Float64() < w.reads {
		return call{[]byte("get"), key}
	}
	// The number of the transaction makes each value unique.
	value := slices.Clone(w.filler)
	copy(value, strconv.Itoa(i))
	return call{[]byte(w.function), key, value}
}
