package rwset

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/kvrwsetpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Check says whether everything that the transaction read is still so: VALID,
// MVCC_READ_CONFLICT or PHANTOM_READ_CONFLICT.
func (s *Set) Check(state State) peerpb.TxValidationCode {
	again := &rereading{state: state, left: maxRecorded}
	for i := range s.Namespaces {
		ns := &s.Namespaces[i]
		for _, read := range ns.reads {
			if !current(state.Get(ns.Name, read.Key), read.Version) {
				return peerpb.TxValidationCode_MVCC_READ_CONFLICT
			}
		}
		for _, q := range ns.ranges {
			if !again.same(ns.Name, q) {
				return peerpb.TxValidationCode_PHANTOM_READ_CONFLICT
			}
		}
	}
	return peerpb.TxValidationCode_VALID
}

func current(e *statedb.Entry, read *kvrwsetpb.Version) bool {
	if e == nil || read == nil {
		return e == nil && read == nil
	}
	return sameVersion(e.Version, read)
}

func sameVersion(now statedb.Version, read *kvrwsetpb.Version) bool {
	return read != nil && now.Block == read.BlockNum && now.Tx == read.TxNum && now.Hash == string(read.RunningHash)
}

func byHashes(q *kvrwsetpb.RangeQueryInfo) bool {
	_, ok := q.ReadsInfo.(*kvrwsetpb.RangeQueryInfo_ReadsMerkleHashes)
	return ok
}

// rereading reads a transaction's ranges again and compares, as far as the first key or hash that differs.
type rereading struct {
	state State
	// left is how much may be read by hashes, counted as for a simulation. One that read more is not endorsed, and hashes
	// of few bytes name any part of the state: without a bound they would hold up every peer's commits.
	left int
}

// same ends the range of a query that stopped early with the last key it saw, which belongs to it.
func (r *rereading) same(namespace string, q *kvrwsetpb.RangeQueryInfo) bool {
	end := q.EndKey
	if !q.ItrExhausted {
		end += "\x00"
	}
	if byHashes(q) {
		return r.sameHashes(namespace, q.StartKey, end, q.GetReadsMerkleHashes())
	}
	return r.sameReads(namespace, q.StartKey, end, q.GetRawReads().GetKvReads())
}

func (r *rereading) sameReads(namespace, start, end string, seen []*kvrwsetpb.KVRead) bool {
	same := true
	r.state.Walk(namespace, start, end, func(e statedb.Entry) bool {
		same = len(seen) > 0 && e.Key == seen[0].Key && sameVersion(e.Version, seen[0].Version)
		if same {
			seen = seen[1:]
		}
		return same
	})
	return same && len(seen) == 0
}

func (r *rereading) sameHashes(namespace, start, end string, seen *kvrwsetpb.QueryReadsMerkleSummary) bool {
	tree, same, compared := &merkle{degree: degree}, true, 0
	r.state.Walk(namespace, start, end, func(e statedb.Entry) bool {
		r.left -= resultBytes + len(e.Key) + len(e.Value)
		tree.add(e.Key, e.Version)
		if same = r.left >= 0 && tree.height() <= seen.MaxLevel; !same {
			return false // too much, or more results than the hashes are of
		}
		for now := tree.at(seen.MaxLevel); same && compared < len(now); compared++ {
			same = compared < len(seen.MaxLevelHashes) && bytes.Equal(now[compared], seen.MaxLevelHashes[compared])
		}
		return same
	})
	return same && proto.Equal(seen, tree.summary())
}
