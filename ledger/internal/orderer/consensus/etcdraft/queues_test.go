package etcdraft

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/qioi/qioi/ledger/internal/ops"
)

// indexed makes entries of these indexes.
func indexed(from, to uint64) (entries []*raftpb.Entry) {
	for i := from; i <= to; i++ {
		entries = append(entries, &raftpb.Entry{Index: new(i)})
	}
	return entries
}

// TestEntriesWaitForAMajority from when their leader appends them until they are committed, or it leads no more. Those of
// leaders before it are none of its own.
func TestEntriesWaitForAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r replicating
		r.committed(nil)
		r.committed(indexed(1, 4)) // as a follower
		assert.Equal(t, ops.Stood{}, r.Stands())
		r.appended(indexed(8, 8))
		time.Sleep(time.Second)
		r.appended(indexed(9, 10))
		r.committed(indexed(5, 7)) // of a leader before
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Length: 3, Came: 3, Waited: 4 * time.Second}, r.Stands())
		r.committed(indexed(8, 9))
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Length: 1, Came: 3, Waited: 5 * time.Second}, r.Stands())
		r.deposed()
		r.deposed()
		r.committed(indexed(10, 14)) // by the next leader
		time.Sleep(time.Second)
		assert.Equal(t, ops.Stood{Came: 3, Waited: 5 * time.Second}, r.Stands())
		r.appended(indexed(15, 15))
		r.committed(indexed(15, 15))
		assert.Equal(t, ops.Stood{Came: 4, Waited: 5 * time.Second}, r.Stands())
	})
}
