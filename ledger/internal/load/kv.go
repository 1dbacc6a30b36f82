package load

import (
	"fmt"
	"slices"
	"strconv"
)

// kv writes values of one size to keys that it chooses; a share of its transactions only read.
type kv struct {
	chooser
	run      string
	function string
	reads    float64
	filler   []byte
}

func newKV(o workloadOptions, function string, reads float64) *kv {
	w := &kv{chooser: newChooser(o), run: newRunID(), function: function, reads: reads, filler: make([]byte, o.valueSize)}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	r := w.random(-1)
	for i := range w.filler {
		w.filler[i] = letters[r.IntN(len(letters))]
	}
	return w
}

// setup puts every key in place where that is asked for. A ledger's update of a key that is not there makes it.
func (w *kv) setup() []call {
	if !w.preload {
		return nil
	}
	calls := make([]call, w.accounts)
	for i := range calls {
		calls[i] = call{[]byte("put"), chosen(i), w.value(-1 - i)}
	}
	return calls
}

func (w *kv) call(i int) call {
	r := w.random(i)
	key := chosen(w.pick(r))
	if w.reads > 0 && r.Float64() < w.reads {
		return call{[]byte("get"), key}
	}
	return call{[]byte(w.function), key, w.value(i)}
}

func chosen(key int) []byte { return strconv.AppendInt([]byte("key-"), int64(key), 10) }

// uniqueSize is how long a value begins that no other one begins with: a number of up to 20 characters, a byte that no
// filler has, by which the number ends, and a run's id.
const uniqueSize = 20 + 1 + runIDSize

// checkUnique refuses values that are too small to be unique, where it is a value that tells what became of an update.
func (o *options) checkUnique(w workload, system string) error {
	updates, ok := w.(*kv)
	if !ok || updates.function != "update" || system != systemCassandra || o.knobs.valueSize >= uniqueSize {
		return nil
	}
	return fmt.Errorf("--value-size %d: cassandra's updates are told apart by their values: at least %d bytes are accepted",
		o.knobs.valueSize, uniqueSize)
}

// value is unique by the number of the transaction and the run, if it has room for both (uniqueSize). The number is first,
// and a value that is shorter than it has its last digits: it differs at least from those of the transactions next to it.
func (w *kv) value(i int) []byte {
	value := slices.Clone(w.filler)
	number := strconv.Itoa(i)
	copy(value, number[max(0, len(number)-len(value)):]+"."+w.run)
	return value
}

// inserts makes a new key with each of its writes, so that no two conflict; a share of its transactions read keys that
// were there before.
type inserts struct{ kv }

func newInserts(o workloadOptions, reads float64) *inserts {
	o.preload = reads > 0
	return &inserts{*newKV(o, "insert", reads)}
}

func (w *inserts) call(i int) call {
	r := w.random(i)
	if w.reads > 0 && r.Float64() < w.reads {
		return call{[]byte("get"), chosen(w.pick(r))}
	}
	return call{[]byte(w.function), []byte(w.run + "-" + strconv.Itoa(i)), w.value(i)}
}

// mint makes one coin with each transaction, as the measurements with Fabcoin do. A coin belongs to who made it.
type mint struct{ chooser }

func (w *mint) setup() []call { return nil }

func (w *mint) call(i int) call {
	return newCall("mint", `[{"amount":`+strconv.Itoa(1+w.random(i).IntN(maxAmount))+`}]`)
}
