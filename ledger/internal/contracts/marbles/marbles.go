// Package marbles is the contract of Fabric's samples that Caliper uses: records with
// an index by colour, range and composite-key queries, and an event.
package marbles

import (
	"encoding/json"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/contracts/record"
	"github.com/qioi/qioi/ledger/internal/shim"
)

// Marble is the stored record.
type Marble struct {
	DocType string `json:"docType"`
	Name    string `json:"name"`
	Color   string `json:"color"`
	Size    int64  `json:"size"`
	Owner   string `json:"owner"`
}

// Result is one marble of a range.
type Result struct {
	Key    string `json:"Key"`
	Record Marble `json:"Record"`
}

const (
	docType = "marble"
	index   = "color~name"
	// maxResults bounds what one transaction reads.
	maxResults = 10_000
)

// New returns the contract.
func New() shim.Contract {
	return shim.Functions{
		"initMarble":                  record.Arity(4, "name, color, size, owner", initMarble),
		"readMarble":                  record.Arity(1, "name", readMarble),
		"transferMarble":              record.Arity(2, "name, owner", transferMarble),
		"delete":                      record.Arity(1, "name", del),
		"getMarblesByRange":           record.Arity(2, "start, end", getMarblesByRange),
		"transferMarblesBasedOnColor": record.Arity(2, "color, owner", transferMarblesBasedOnColor),
	}
}

func get(stub *shim.Stub, name string) (*Marble, error) {
	m := &Marble{}
	return m, record.Get(stub, name, "marble "+name, m)
}

func initMarble(stub *shim.Stub, args []string) ([]byte, error) {
	size, err := record.Amount(args[2])
	if err != nil {
		return nil, err
	}
	m := &Marble{DocType: docType, Name: args[0], Color: args[1], Size: size, Owner: args[3]}
	if err := record.MustBeFree(stub, m.Name, "marble "+m.Name); err != nil {
		return nil, err
	}
	entry, err := shim.CreateCompositeKey(index, []string{m.Color, m.Name})
	if err != nil {
		return nil, err
	}
	if err := record.Put(stub, m.Name, m); err != nil {
		return nil, err
	}
	if err := stub.PutState(entry, []byte{0}); err != nil {
		return nil, err
	}
	return nil, stub.SetEvent("initMarble", []byte(m.Name))
}

func readMarble(stub *shim.Stub, args []string) ([]byte, error) {
	m, err := get(stub, args[0])
	if err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

func transferMarble(stub *shim.Stub, args []string) ([]byte, error) {
	return nil, hand(stub, args[0], args[1])
}

func hand(stub *shim.Stub, name, owner string) error {
	m, err := get(stub, name)
	if err != nil {
		return err
	}
	m.Owner = owner
	return record.Put(stub, name, m)
}

func del(stub *shim.Stub, args []string) ([]byte, error) {
	m, err := get(stub, args[0])
	if err != nil {
		return nil, err
	}
	entry, err := shim.CreateCompositeKey(index, []string{m.Color, m.Name})
	if err != nil {
		return nil, err
	}
	if err := stub.DelState(m.Name); err != nil {
		return nil, err
	}
	return nil, stub.DelState(entry)
}

func getMarblesByRange(stub *shim.Stub, args []string) ([]byte, error) {
	it, err := stub.GetStateByRange(args[0], args[1])
	if err != nil {
		return nil, err
	}
	found := []Result{}
	err = each(it, func(key string, value []byte) error {
		r := Result{Key: key}
		found = append(found, r)
		return json.Unmarshal(value, &found[len(found)-1].Record)
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(found)
}

func transferMarblesBasedOnColor(stub *shim.Stub, args []string) ([]byte, error) {
	it, err := stub.GetStateByPartialCompositeKey(index, args[:1])
	if err != nil {
		return nil, err
	}
	moved := []string{}
	err = each(it, func(key string, _ []byte) error {
		_, attributes, err := shim.SplitCompositeKey(key)
		if err != nil {
			return err
		}
		if len(attributes) != 2 {
			return fmt.Errorf("index entry %q has %d parts, 2 are expected", key, len(attributes))
		}
		moved = append(moved, attributes[1])
		return hand(stub, attributes[1], args[1])
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(moved)
}

// each walks a query to its end.
func each(it *shim.Iterator, visit func(key string, value []byte) error) error {
	for n := 0; it.HasNext(); n++ {
		kv, err := it.Next()
		if err == nil && n >= maxResults {
			err = fmt.Errorf("%w: more than %d marbles", record.ErrArguments, maxResults)
		}
		if err == nil {
			err = visit(kv.GetKey(), kv.GetValue())
		}
		if err != nil {
			_ = it.Close() // the first error is the one to tell
			return err
		}
	}
	return it.Close()
}
