package load

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// workload says what transaction i does. But for the run's id in what it creates, a call depends on i and the seed alone,
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
	zipf      float64 // exponent; 0: all alike
	readShare float64 // of kv's inserts
	valueSize int     // bytes
	seed      uint64
	preload   bool // keys are put in place before the run, whatever the workload
}

// workloads by chaincode and name; the first of each is its default.
var workloads = map[string][]struct {
	name string
	make func(workloadOptions) workload
}{
	"smallbank": {
		{"create", func(workloadOptions) workload { return &bankCreate{run: newRunID()} }},
		{"mix", func(o workloadOptions) workload { return &bankMix{newChooser(o)} }},
	},
	"kv": {
		{"put", func(o workloadOptions) workload { return newKV(o, "put", 0) }},
		{"update", func(o workloadOptions) workload { return newKV(o, "update", 0) }},
		{"ycsb50", func(o workloadOptions) workload { return newKV(o, "update", 0.5) }},
		{"insert", func(o workloadOptions) workload { return newInserts(o, o.readShare) }},
		{"ycsb90", func(o workloadOptions) workload { return newInserts(o, 0.1) }},
	},
	"fabcoin": {
		{"mint", func(o workloadOptions) workload { return &mint{newChooser(o)} }},
	},
	"scm": {
		{"scm95", func(o workloadOptions) workload { return newSCM(o, 0.95) }},
		{"scm99", func(o workloadOptions) workload { return newSCM(o, 0.99) }},
	},
}

// workloadHelp names all workloads, for the flag.
func workloadHelp() string {
	var all []string
	for _, chaincode := range slices.Sorted(maps.Keys(workloads)) {
		var names []string
		for _, w := range workloads[chaincode] {
			names = append(names, w.name)
		}
		all = append(all, chaincode+": "+strings.Join(names, ", "))
	}
	return strings.Join(all, "; ") + " (default: the first)"
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

// runIDSize is the length of a run's id.
const runIDSize = 8

// newRunID keeps what two runs create on one ledger apart: accounts, keys, values.
func newRunID() string {
	var id [runIDSize / 2]byte
	_, _ = rand.Read(id[:]) // it is documented never to fail
	return hex.EncodeToString(id[:])
}
