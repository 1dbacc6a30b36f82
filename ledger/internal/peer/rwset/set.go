package rwset

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/rwsetpb"
)

// ErrMalformed is what a read/write set that cannot be used wraps.
var ErrMalformed = errors.New("malformed read/write set")

// Set is a decoded read/write set.
type Set struct {
	Namespaces []Namespace
	Writes     []statedb.Write // of all namespaces, in order
}

// Namespace is what one chaincode read.
type Namespace struct {
	Name   string
	Writes int // how many of Set.Writes are its own
	reads  []*kvrwsetpb.KVRead
	ranges []*kvrwsetpb.RangeQueryInfo
}

// State is what reads are checked against.
type State interface {
	Get(namespace, key string) *statedb.Entry
	Walk(namespace, start, end string, visit func(statedb.Entry) bool)
}

// Decode reads the results of a transaction.
func Decode(raw []byte) (*Set, error) {
	var outer rwsetpb.TxReadWriteSet
	if err := unmarshal(raw, &outer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if outer.DataModel != rwsetpb.TxReadWriteSet_KV {
		return nil, fmt.Errorf("%w: data model %d, only KV is accepted", ErrMalformed, outer.DataModel)
	}
	set := &Set{Namespaces: make([]Namespace, 0, len(outer.NsRwset))}
	seen := map[string]bool{} // without a size: all but hostile sets have two or three
	for _, wire := range outer.NsRwset {
		if err := onlyKnown(wire); err != nil {
			return nil, fmt.Errorf("%w: namespace %s: %w", ErrMalformed, wire.Namespace, err)
		}
		if wire.Namespace == "" || seen[wire.Namespace] {
			return nil, fmt.Errorf("%w: namespace %q is empty or given twice", ErrMalformed, wire.Namespace)
		}
		seen[wire.Namespace] = true
		var kv kvrwsetpb.KVRWSet
		if err := unmarshal(wire.Rwset, &kv); err != nil {
			return nil, fmt.Errorf("%w: namespace %s: %w", ErrMalformed, wire.Namespace, err)
		}
		for _, q := range kv.RangeQueriesInfo {
			if n := q.GetReadsMerkleHashes().GetMaxDegree(); byHashes(q) && n != degree {
				return nil, fmt.Errorf("%w: namespace %s: a range query by hashes of degree %d, only %d is accepted", ErrMalformed, wire.Namespace, n, degree)
			}
		}
		for _, w := range kv.Writes {
			if w.Key == "" {
				return nil, fmt.Errorf("%w: namespace %s: a write of an empty key", ErrMalformed, wire.Namespace)
			}
			// Other endorsers may leave out the mark where the value is empty (Fabric's FAB-18386).
			remove := w.IsDelete || len(w.Value) == 0
			set.Writes = append(set.Writes, statedb.Write{Namespace: wire.Namespace, Key: w.Key, Value: w.Value, Delete: remove})
		}
		set.Namespaces = append(set.Namespaces, Namespace{
			Name: wire.Namespace, Writes: len(kv.Writes), reads: kv.Reads, ranges: kv.RangeQueriesInfo,
		})
	}
	return set, nil
}

func unmarshal(raw []byte, into proto.Message) error {
	if err := protoutil.Unmarshal(raw, into); err != nil {
		return err
	}
	return onlyKnown(into)
}

// onlyKnown refuses what this ledger would pass over: private data, and policies of single keys. A
// transaction of which only a part takes effect must not be valid.
func onlyKnown(m proto.Message) error {
	if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		field, _, _ := protowire.ConsumeTag(unknown)
		return fmt.Errorf("field %d of %s is not accepted", field, m.ProtoReflect().Descriptor().Name())
	}
	return nil
}
