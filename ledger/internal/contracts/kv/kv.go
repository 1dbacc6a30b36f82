// Package kv is a plain key-value contract: the workload of measurements that
// ask for the ledger's own cost.
package kv

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim"
)

// ErrArguments says what a function takes.
var ErrArguments = errors.New("wrong arguments")

// maxScan bounds the results of one scan.
const maxScan = 10_000

// New returns the contract.
func New() shim.Contract {
	return shim.Functions{
		"put":    put,
		"get":    get,
		"delete": del,
		"insert": insert,
		"update": update,
		"scan":   scan,
	}
}

// put writes without a read, so that puts never conflict.
func put(stub *shim.Stub, args []string) ([]byte, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%w: put takes a key and a value", ErrArguments)
	}
	return nil, stub.PutState(args[0], []byte(args[1]))
}

func get(stub *shim.Stub, args []string) ([]byte, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%w: get takes a key", ErrArguments)
	}
	return stub.GetState(args[0])
}

func del(stub *shim.Stub, args []string) ([]byte, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%w: delete takes a key", ErrArguments)
	}
	return nil, stub.DelState(args[0])
}

// insert refuses a key that is there: two inserts of one key conflict, as a database's do.
func insert(stub *shim.Stub, args []string) ([]byte, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%w: insert takes a key and a value", ErrArguments)
	}
	if err := record.MustBeFree(stub, args[0], "key "+args[0]); err != nil {
		return nil, err
	}
	return nil, stub.PutState(args[0], []byte(args[1]))
}

// update is a read-modify-write: it returns the value that it replaces, and
// conflicts with every other write of the key.
func update(stub *shim.Stub, args []string) ([]byte, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%w: update takes a key and a value", ErrArguments)
	}
	old, err := stub.GetState(args[0])
	if err != nil {
		return nil, err
	}
	return old, stub.PutState(args[0], []byte(args[1]))
}

// Entry is one result of a scan.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// scan lists the entries from start up to, not including, end, at most limit of
// them, as JSON.
func scan(stub *shim.Stub, args []string) ([]byte, error) {
	limit, err := strconv.Atoi(at(args, 2))
	if len(args) != 3 || err != nil || limit < 1 || limit > maxScan {
		return nil, fmt.Errorf("%w: scan takes a start, an end and a limit from 1 to %d", ErrArguments, maxScan)
	}
	it, err := stub.GetStateByRange(args[0], args[1])
	if err != nil {
		return nil, err
	}
	entries := []Entry{}
	for len(entries) < limit && it.HasNext() {
		found, err := it.Next()
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{found.GetKey(), string(found.GetValue())})
	}
	if err := it.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(entries)
}

func at(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
