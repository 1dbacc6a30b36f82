package chain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// external opens a chain of a log that others keep.
func (f *fixture) external(dir string) *Chain {
	f.t.Helper()
	c, err := Open(dir, f.genesis, f.signer, KafkaLog)
	require.NoError(f.t, err)
	return c
}

// large is an entry of which two have no room in one block.
func (f *fixture) large() *streampb.LogEntry {
	f.t.Helper()
	env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_MESSAGE, "ch", f.signer, nil, make([]byte, 600<<10))
	require.NoError(f.t, err)
	raw, err := proto.Marshal(env)
	require.NoError(f.t, err)
	return &streampb.LogEntry{Txs: [][]byte{raw}}
}

// TestAnEndThatTheLogHasLostEndsTheOrderer which cut a block there: the log has lost its last entries, and has others in
// their place. An orderer that had not read them cuts another block.
func TestAnEndThatTheLogHasLostEndsTheOrderer(t *testing.T) {
	f := newFixture(t)
	one := func() *streampb.LogEntry { return f.entry(1, false) }
	cut := func(number uint64) *streampb.LogEntry { return &streampb.LogEntry{Cut: true, CutBlock: number} }
	none := &streampb.LogEntry{} // an orderer that came, or what is no orderer's
	a, b, c, d, first := one(), one(), one(), one(), f.large()
	for what, test := range map[string]struct {
		before, after []*streampb.LogEntry // the log when the first orderer ended, and afterwards
		same          bool
		torn          bool // the last transaction is not on the first orderer's disk
	}{
		"time":                    {[]*streampb.LogEntry{a, cut(1)}, []*streampb.LogEntry{a, none, b, cut(1), c, cut(2)}, false, false},
		"time, others at once":    {[]*streampb.LogEntry{a, cut(1)}, []*streampb.LogEntry{a, b, none, cut(1), c, cut(2)}, false, false},
		"time, of another block":  {[]*streampb.LogEntry{a, cut(1)}, []*streampb.LogEntry{a, cut(2), b, cut(1)}, false, false},
		"time, and it came again": {[]*streampb.LogEntry{a, cut(1)}, []*streampb.LogEntry{a, cut(1), b, cut(2)}, true, false},
		"time, nothing is lost":   {[]*streampb.LogEntry{a, cut(1), b, cut(2), c}, []*streampb.LogEntry{a, cut(1), b, cut(2), c, d, cut(3)}, true, false},
		"time, a block earlier":   {[]*streampb.LogEntry{a, cut(1), b, c, d}, []*streampb.LogEntry{a, none, b, c, d, cut(2)}, false, false},
		"size":                    {[]*streampb.LogEntry{first, f.large()}, []*streampb.LogEntry{first, a, cut(1), b, cut(2)}, false, true},
		"size, and as large came": {[]*streampb.LogEntry{first, f.large()}, []*streampb.LogEntry{first, f.large(), cut(2)}, true, true},
		"number":                  {[]*streampb.LogEntry{a, b, c}, []*streampb.LogEntry{a, b, c, none, d, cut(2)}, true, false},
		"what is no transaction": {
			[]*streampb.LogEntry{first, f.large()},
			[]*streampb.LogEntry{first, {Txs: [][]byte{make([]byte, 600<<10)}}, a, cut(1), b, cut(2)}, false, true,
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			ended := f.external(dir)
			require.NoError(t, ended.Apply(1, test.before...))
			require.NoError(t, ended.Close())
			if test.torn {
				path := filepath.Join(dir, "segment-000000.blk")
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.NoError(t, os.Truncate(path, info.Size()-1))
			}
			other := f.external(t.TempDir())
			require.NoError(t, other.Apply(1, test.after...))
			want := headers(t, other)
			require.NoError(t, other.Close())

			again := f.external(dir)
			first := max(1, again.From().Index)
			err := again.Apply(first, test.after[first-1:]...)
			if test.same {
				require.NoError(t, err)
				assert.Equal(t, want, headers(t, again))
			} else {
				require.ErrorIs(t, err, ErrOtherLog)
			}
			require.NoError(t, again.Close())
		})
	}
}

// TestTheLogHasReachedWhatEndedTheLastBlock: a log that is read to its end before is not taken for whole.
func TestTheLogHasReachedWhatEndedTheLastBlock(t *testing.T) {
	f := newFixture(t)
	entries := []*streampb.LogEntry{f.entry(1, false), {Cut: true, CutBlock: 1}, f.entry(1, false), f.entry(1, false), f.entry(1, false)}
	dir := t.TempDir()
	for _, end := range []int{2, 5} { // by its time, and by the number of its transactions
		c := f.external(dir)
		first := max(1, c.From().Index)
		require.NoError(t, c.Apply(first, entries[first-1:end]...))
		require.NoError(t, c.Close())
		c = f.external(dir)
		assert.EqualValues(t, map[int]int{2: 3, 5: 6}[end], c.Reached().Index)
		require.NoError(t, c.Close())
	}
}

// TestTheOpenBlockIsMissing until the log has brought all that is on disk.
func TestTheOpenBlockIsMissing(t *testing.T) {
	f := newFixture(t)
	entries := []*streampb.LogEntry{f.entry(1, false), f.entry(1, false), f.entry(1, false)}
	dir := t.TempDir()
	c := f.external(dir)
	require.NoError(t, c.Apply(1, entries[:2]...))
	assert.Zero(t, c.Missing())
	require.NoError(t, c.Close())
	c = f.external(dir)
	for i, entry := range entries {
		assert.Equal(t, max(0, 2-i), c.Missing())
		require.NoError(t, c.Apply(uint64(i)+1, entry))
	}
	assert.Zero(t, c.Missing())
	require.NoError(t, c.Close())
}

// TestALogThatHasLostNothingGoesOnAfterAStopAnywhere, however its blocks end.
func TestALogThatHasLostNothingGoesOnAfterAStopAnywhere(t *testing.T) {
	f := newFixture(t)
	one := func() *streampb.LogEntry { return f.entry(1, false) }
	cut := func(number uint64) *streampb.LogEntry { return &streampb.LogEntry{Cut: true, CutBlock: number} }
	entries := []*streampb.LogEntry{
		{}, cut(1), one(), {}, cut(1), cut(1), one(), one(), one(), {}, f.large(), {}, f.large(), one(), cut(4),
		cut(5), {}, {Txs: [][]byte{[]byte("x")}}, f.large(), {Txs: [][]byte{[]byte("x")}}, f.large(), cut(6), {}, one(), one(), cut(7), one(),
	}
	whole := f.external(t.TempDir())
	require.NoError(t, whole.Apply(1, entries...))
	want := headers(t, whole)
	require.NoError(t, whole.Close())
	for stop := range len(entries) {
		dir, had := t.TempDir(), 0
		for _, end := range []int{stop, stop + 1, len(entries)} {
			c := f.external(dir)
			first := max(1, c.From().Index)
			require.LessOrEqual(t, c.Reached().Index, uint64(had)+1, "of what it has read")
			require.NoError(t, c.Apply(first, entries[first-1:max(int(first)-1, end)]...), "stopped after %d entries", stop)
			if end == len(entries) {
				assert.Zero(t, c.Missing())
				assert.Equal(t, want, headers(t, c))
			}
			require.NoError(t, c.Close())
			had = end
		}
	}
}
