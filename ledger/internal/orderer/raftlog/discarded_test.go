package raftlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// stateAt is one of a term, with a commit index.
func stateAt(term, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: proto.Uint64(term), Vote: proto.Uint64(1), Commit: proto.Uint64(commit)}
}

// saveOf saves entries of a term, of which up to commit are known to be committed.
func saveOf(t *testing.T, l *Log, term, from, to, commit uint64) {
	t.Helper()
	for i := from; i <= to; i++ {
		e := &raftpb.Entry{Index: proto.Uint64(i), Term: proto.Uint64(term), Data: []byte("x")}
		require.NoError(t, l.Save(stateAt(term, commit), []*raftpb.Entry{e}))
	}
}

// TestWhatASnapshotHasDiscardedStaysAway: entries that were never committed end where another's snapshot was taken over, also
// after a restart. An orderer that had them again would take its log for newer than those that have what is committed.
func TestWhatASnapshotHasDiscardedStaysAway(t *testing.T) {
	const taken = 5 // the snapshot's entry
	for name, c := range map[string]struct {
		tail uint64                     // tail is the term of the entries 2 to 10
		then func(t *testing.T, l *Log) // then is what happens after the snapshot
		last uint64
	}{
		"of an older term": {tail: 2, last: taken},
		"of a newer term":  {tail: 4, last: taken}, // its leader had another entry, and was not followed
		"and some are saved": {tail: 2, last: 7, then: func(t *testing.T, l *Log) {
			saveOf(t, l, 5, 6, 7, taken)
		}},
		"and its own snapshot follows": {tail: 2, last: 7, then: func(t *testing.T, l *Log) {
			saveOf(t, l, 5, 6, 7, 7)
			require.NoError(t, l.Compact(7, 4, nil))
		}},
		"and its own with entries after it": {tail: 2, last: 8, then: func(t *testing.T, l *Log) {
			saveOf(t, l, 5, 6, 8, 7)
			require.NoError(t, l.Compact(7, 4, nil))
		}},
		"and another's follows": {tail: 2, last: 8, then: func(t *testing.T, l *Log) {
			require.NoError(t, l.SaveSnapshot(NewSnapshot(8, 3, voters, 5), stateAt(5, 8)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			saveOf(t, l, c.tail, 2, 10, 1)
			require.NoError(t, l.SaveSnapshot(NewSnapshot(taken, 3, voters, 3), stateAt(5, taken)))
			if c.then != nil {
				c.then(t, l)
			}
			for range 2 {
				require.Equal(t, c.last, last(t, l))
				require.NoError(t, l.Close())
				_, end, err := Kept(dir)
				require.NoError(t, err)
				assert.Equal(t, c.last, end)
				l = open(t, dir)
			}
			saveOf(t, l, 6, c.last+1, c.last+2, c.last)
			require.NoError(t, l.Close())
			l = open(t, dir)
			assert.Equal(t, c.last+2, last(t, l))
			term, err := l.Memory.Term(c.last + 1)
			require.NoError(t, err)
			assert.EqualValues(t, 6, term)
			require.NoError(t, l.Close())
		})
	}
}

// withUncounted opens a log of entries 2 to 10 that has another's snapshot up to 5, whose state a crash has kept from it.
func withUncounted(t *testing.T, dir string) *Log {
	t.Helper()
	l := open(t, dir)
	saveOf(t, l, 2, 2, 10, 1)
	require.NoError(t, l.persist(NewSnapshot(5, 3, voters, 3)))
	require.NoError(t, l.Close())
	return open(t, dir)
}

// TestASnapshotThatDoesNotCountDiscardsNothing: a crash came before the state that makes it count.
func TestASnapshotThatDoesNotCountDiscardsNothing(t *testing.T) {
	dir := t.TempDir()
	l := withUncounted(t, dir)
	require.EqualValues(t, 10, last(t, l), "others have counted them")
	require.NoError(t, l.SaveSnapshot(NewSnapshot(5, 3, voters, 3), stateAt(3, 5)), "it comes again")
	require.NoError(t, l.Close())
	l = open(t, dir)
	require.EqualValues(t, 5, last(t, l))
	require.NoError(t, l.Close())
}

// TestASnapshotMayCountLater, of which a crash has kept the state: the log goes on without it, and has its entry after it.
func TestASnapshotMayCountLater(t *testing.T) {
	dir := t.TempDir()
	l := withUncounted(t, dir)
	saveOf(t, l, 3, 4, 7, 6)
	require.NoError(t, l.Close())
	l = open(t, dir)
	assert.EqualValues(t, 7, last(t, l))
	term, err := l.Memory.Term(6)
	require.NoError(t, err)
	assert.EqualValues(t, 3, term)
	require.NoError(t, l.Close())
}
