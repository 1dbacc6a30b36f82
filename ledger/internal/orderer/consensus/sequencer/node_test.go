package sequencer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/orderer/chain"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
	"github.com/qioi/qioi/ledger/internal/sequencer"
	"github.com/qioi/qioi/ledger/pb/sequencerpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// ledger is a host that keeps what is applied.
type ledger struct {
	consensus.Host
	from, applied chain.Applied
	first         uint64
	entries       []*streampb.LogEntry
	fails         error
	missing       int
}

func (l *ledger) From() chain.Applied         { return l.from }
func (l *ledger) Reached() chain.Applied      { return l.applied }
func (l *ledger) Missing() int                { return l.missing }
func (l *ledger) Applied() chain.Applied      { return l.applied }
func (l *ledger) Open() (block uint64, n int) { return 1, 0 }
func (l *ledger) Sync() error                 { return nil }

func (l *ledger) Apply(first uint64, entries ...*streampb.LogEntry) error {
	l.first, l.entries = first, append(l.entries, entries...)
	return l.fails
}

// facade is one whose sequencer nobody asks: nothing is sent before a session.
func facade(t *testing.T, host *ledger) *Node {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	n := newNode("ch", conn, func() time.Duration { return time.Hour }, host)
	t.Cleanup(func() {
		n.block.Stop()
		require.NoError(t, conn.Close())
	})
	return n
}

func blob(t *testing.T, entry *streampb.LogEntry) []byte {
	t.Helper()
	b, err := proto.Marshal(entry)
	require.NoError(t, err)
	return b
}

// chained is the chain after blobs.
func chained(blobs ...[]byte) []byte {
	var c sequencer.Chain
	for _, b := range blobs {
		c = c.After(b)
	}
	return c[:]
}

// TestWhatIsReadIsApplied in order, and what no facade has written is an empty entry, so that the numbers stay.
func TestWhatIsReadIsApplied(t *testing.T) {
	tx, cut := blob(t, &streampb.LogEntry{Txs: [][]byte{[]byte("a")}}), blob(t, &streampb.LogEntry{Cut: true, CutBlock: 7})
	two := blob(t, &streampb.LogEntry{Txs: [][]byte{[]byte("a"), []byte("b")}})
	both := blob(t, &streampb.LogEntry{Txs: [][]byte{[]byte("a")}, Cut: true})
	host := &ledger{}
	n := facade(t, host)
	blobs := [][]byte{tx, cut, two, both, []byte("\xff")}
	require.NoError(t, n.take(&sequencerpb.Blobs{First: 1, Blobs: blobs, Chain: chained(blobs...)}))
	assert.Equal(t, uint64(1), host.first)
	require.Len(t, host.entries, len(blobs))
	assert.Equal(t, [][]byte{[]byte("a")}, host.entries[0].Txs)
	assert.Equal(t, uint64(7), host.entries[1].CutBlock)
	for _, foreign := range host.entries[2:] {
		assert.True(t, proto.Equal(&streampb.LogEntry{}, foreign), "%v", foreign)
	}
	require.NoError(t, n.take(&sequencerpb.Blobs{First: 6, Blobs: [][]byte{tx}, Chain: chained(append(blobs, tx)...)}))
	assert.Equal(t, uint64(6), host.first)
}

// TestALogThatIsAnotherEndsTheFacade before anything of it is applied.
func TestALogThatIsAnotherEndsTheFacade(t *testing.T) {
	tx := blob(t, &streampb.LogEntry{Txs: [][]byte{[]byte("a")}})
	for name, blobs := range map[string]*sequencerpb.Blobs{
		"a gap":              {First: 2, Blobs: [][]byte{tx}, Chain: chained(tx)},
		"again":              {First: 0, Blobs: [][]byte{tx}, Chain: chained(tx)},
		"another chain":      {First: 1, Blobs: [][]byte{tx}, Chain: chained(tx, tx)},
		"no chain":           {First: 1, Blobs: [][]byte{tx}},
		"a part of the hash": {First: 1, Blobs: [][]byte{tx}, Chain: chained(tx)[:31]},
	} {
		t.Run(name, func(t *testing.T) {
			host := &ledger{}
			err := facade(t, host).take(blobs)
			require.ErrorIs(t, err, ErrLost)
			assert.True(t, fatal(err))
			assert.Empty(t, host.entries)
		})
	}
}

// TestARestartedFacadeBelievesTheFirstChain, and compares what comes after with it.
func TestARestartedFacadeBelievesTheFirstChain(t *testing.T) {
	tx := blob(t, &streampb.LogEntry{Txs: [][]byte{[]byte("a")}})
	before := chained([]byte("what it does not read again"), tx)
	host := &ledger{from: chain.Applied{Index: 5}}
	n := facade(t, host)
	require.NoError(t, n.take(&sequencerpb.Blobs{First: 5, Blobs: [][]byte{tx}, Chain: before}))
	next := sequencer.Chain(before).After(tx)
	require.NoError(t, n.take(&sequencerpb.Blobs{First: 6, Blobs: [][]byte{tx}, Chain: next[:]}))
	require.ErrorIs(t, n.take(&sequencerpb.Blobs{First: 7, Blobs: [][]byte{tx}, Chain: next[:]}), ErrLost)
	assert.Len(t, host.entries, 2)
}

// TestALedgerThatFailsEndsTheFacade.
func TestALedgerThatFailsEndsTheFacade(t *testing.T) {
	host := &ledger{fails: errors.New("no space left on device")}
	tx := blob(t, &streampb.LogEntry{Txs: [][]byte{[]byte("a")}})
	err := facade(t, host).take(&sequencerpb.Blobs{First: 1, Blobs: [][]byte{tx}, Chain: chained(tx)})
	require.ErrorIs(t, err, host.fails)
	assert.True(t, fatal(err))
	assert.False(t, fatal(away{host.fails}), "the way to the sequencer is tried again")
}

// TestNothingComesInBeforeTheLogIsRead to its end, nor once the connection has ended; what waited then is refused.
func TestNothingComesInBeforeTheLogIsRead(t *testing.T) {
	n := facade(t, &ledger{})
	var settled []error
	submit := func() error {
		return n.Submit(consensus.Proposal{Tx: []byte("a"), Settle: func(err error) { settled = append(settled, err) }})
	}
	require.ErrorIs(t, submit(), ErrAway)
	require.NoError(t, n.admit(context.Background(), 1)) // the log has a blob that it has not read
	require.ErrorIs(t, submit(), ErrAway)
	ended, end := context.WithCancel(context.Background())
	end()
	require.NoError(t, n.admit(ended, 0))
	require.ErrorIs(t, submit(), ErrAway)

	require.NoError(t, n.admit(context.Background(), 0))
	require.NoError(t, submit())
	require.NoError(t, submit())
	waiting, _ := n.Queued()
	assert.Equal(t, 2, waiting)
	n.shut()
	assert.Equal(t, []error{ErrAway, ErrAway}, settled)
	require.ErrorIs(t, submit(), ErrAway)
}

// TestALogThatEndsBeforeTheOpenBlockDidEndsTheFacade: followers have had what is missing.
func TestALogThatEndsBeforeTheOpenBlockDidEndsTheFacade(t *testing.T) {
	host := &ledger{missing: 1}
	n := facade(t, host)
	require.NoError(t, n.admit(context.Background(), 1), "it has not read all")
	err := n.admit(context.Background(), 0)
	require.ErrorIs(t, err, ErrLost)
	assert.True(t, fatal(err))
	assert.False(t, n.connected.Load())
	host.missing = 0
	require.NoError(t, n.admit(context.Background(), 0))
	assert.True(t, n.connected.Load())
}

// TestARequestHasWhatWaits up to its size, in order.
func TestARequestHasWhatWaits(t *testing.T) {
	n := facade(t, &ledger{})
	for _, size := range []int{1, requestBytes - 2, 1, 1} {
		require.NoError(t, n.intake.Put(consensus.Proposal{Tx: make([]byte, size)}))
	}
	sizes := func() (sizes []int) {
		first, waits := n.intake.Next()
		require.True(t, waits)
		batch, request := n.gather(first)
		require.Len(t, request.Blobs, len(batch))
		assert.Equal(t, "ch", request.Channel)
		for _, b := range request.Blobs {
			sizes = append(sizes, len(b))
		}
		return sizes
	}
	assert.Equal(t, []int{1, requestBytes - 2, 1}, sizes())
	assert.Equal(t, []int{1}, sizes())
}

// TestTheTimeToCutIsOrdered as every transaction is.
func TestTheTimeToCutIsOrdered(t *testing.T) {
	n := facade(t, &ledger{})
	n.block.Watch(3, 1)
	n.proposeCut()
	waiting, _ := n.Queued()
	require.Zero(t, waiting, "the sequencer is away")
	require.NoError(t, n.admit(context.Background(), 0))
	n.proposeCut()
	p, waits := n.intake.Next()
	require.True(t, waits)
	assert.True(t, proto.Equal(&streampb.LogEntry{Cut: true, CutBlock: 3}, n.entry(p.Tx)))
}
