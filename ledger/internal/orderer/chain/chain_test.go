package chain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/ca"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/internal/orderer/cutter"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

type fixture struct {
	t       *testing.T
	genesis *commonpb.Block
	signer  *identity.SigningIdentity
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	a, err := ca.New("ca", "example.com")
	require.NoError(t, err)
	cert, key, err := a.Issue(ca.Request{CommonName: "orderer1", Unit: "orderer"})
	require.NoError(t, err)
	signer, err := identity.NewSigner("OrdererMSP", cert, key)
	require.NoError(t, err)
	genesis, err := channelconfig.NewGenesis(channelconfig.Genesis{
		ChannelID: "ch", ConsensusType: channelconfig.Solo, Mode: channelconfig.Stream,
		MaxMessageCount: 3, AbsoluteMaxBytes: 1 << 20, PreferredMaxBytes: 1 << 20, BatchTimeout: time.Second,
		VirtualBlockTxs: 3, VirtualBlockInterval: time.Second,
		OrdererOrgs: []channelconfig.GenesisOrg{{MSPID: "OrdererMSP", RootCert: a.CertPEM(), TLSCert: a.CertPEM()}},
	})
	require.NoError(t, err)
	return &fixture{t: t, genesis: genesis, signer: signer}
}

func (f *fixture) open(dir string) *Chain {
	f.t.Helper()
	c, err := Open(dir, f.genesis, f.signer, RaftLog)
	require.NoError(f.t, err)
	return c
}

// entry makes a log entry of n transactions that nobody else has.
func (f *fixture) entry(n int, cut bool) *streampb.LogEntry {
	f.t.Helper()
	e := &streampb.LogEntry{Cut: cut}
	for i := range n {
		env, _, err := protoutil.NewEnvelope(commonpb.HeaderType_MESSAGE, "ch", f.signer, nil, []byte(fmt.Sprint(i)))
		require.NoError(f.t, err)
		raw, err := proto.Marshal(env)
		require.NoError(f.t, err)
		e.Txs = append(e.Txs, raw)
	}
	return e
}

func headers(t *testing.T, c *Chain) []string {
	t.Helper()
	var out []string
	for n := range c.Height() {
		b, err := c.Block(n)
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%x of %d", protoutil.BlockHeaderHash(b.Header), len(b.Data.Data)))
	}
	return out
}

// The same log gives the same blocks, wherever a node was stopped in between: the
// log is replayed from the entry that the last sealed block ends in.
func TestReplayAfterAStopAnywhere(t *testing.T) {
	f := newFixture(t)
	entries := []*streampb.LogEntry{f.entry(2, false), f.entry(5, false), f.entry(1, true), f.entry(0, true), f.entry(7, true), f.entry(1, false), f.entry(9, false)}
	whole := f.open(t.TempDir())
	for i, e := range entries {
		require.NoError(t, whole.Apply(uint64(i)+2, e))
	}
	want := headers(t, whole)
	require.Len(t, want, 1+2+1+3+3)
	require.NoError(t, whole.Close())

	for stop := range len(entries) + 1 {
		dir := t.TempDir()
		c := f.open(dir)
		for i := range stop {
			require.NoError(t, c.Apply(uint64(i)+2, entries[i]))
		}
		require.NoError(t, c.Close())
		c = f.open(dir)
		for i, e := range entries {
			if index := uint64(i) + 2; index >= c.Applied().Index {
				require.NoError(t, c.Apply(index, e))
			}
		}
		assert.Equal(t, want, headers(t, c), "stopped after %d entries", stop)
		require.NoError(t, c.Close())
	}
}

// TestWhatIsOnDiskCountsOnce: after a restart the log brings it again, and a part of the open block may come in a sealed one.
func TestWhatIsOnDiskCountsOnce(t *testing.T) {
	f := newFixture(t)
	source := f.open(t.TempDir())
	first, second := f.entry(4, false), f.entry(2, false)
	require.NoError(t, source.Apply(2, first, second))
	require.Equal(t, uint64(6), source.Grown())
	block, err := source.Block(2)
	require.NoError(t, err)

	dir := t.TempDir()
	c := f.open(dir)
	require.NoError(t, c.Apply(2, first))
	require.Equal(t, uint64(4), c.Grown())
	require.NoError(t, c.Close())
	c = f.open(dir)
	require.NoError(t, c.Apply(2, first))
	require.Zero(t, c.Grown())
	require.NoError(t, c.Import(block))
	require.Equal(t, uint64(2), c.Grown())
	require.NoError(t, c.Apply(3, second))
	assert.Equal(t, uint64(2), c.Grown())
	require.NoError(t, c.Close())
	require.NoError(t, source.Close())
}

func TestALedgerThatContradictsTheLogIsRefused(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	c := f.open(dir)
	require.NoError(t, c.Apply(2, f.entry(2, false)))
	require.NoError(t, c.Close())
	c = f.open(dir)
	require.ErrorIs(t, c.Apply(2, f.entry(2, false)), ErrOtherLog)
	require.NoError(t, c.Close())

	other := newFixture(t)
	_, err := Open(dir, other.genesis, other.signer, RaftLog)
	require.ErrorContains(t, err, "not the channel's genesis block")
}

func TestImportGoesOnWhereAnotherChainIs(t *testing.T) {
	f := newFixture(t)
	ahead, behind := f.open(t.TempDir()), f.open(t.TempDir())
	first, second := f.entry(1, false), f.entry(6, false)
	require.NoError(t, ahead.Apply(2, first))
	require.NoError(t, ahead.Apply(3, second))
	require.NoError(t, behind.Apply(2, first)) // it has a part of block 1 already
	require.Equal(t, uint64(3), ahead.Height())
	for n := uint64(1); n < 3; n++ {
		block, err := ahead.Block(n)
		require.NoError(t, err)
		for what, change := range map[string]func(*commonpb.Block){
			"expected":      func(b *commonpb.Block) { b.Header.Number++ },
			"previous hash": func(b *commonpb.Block) { b.Header.PreviousHash = []byte("x") },
			"data hash":     func(b *commonpb.Block) { b.Data.Data[0] = b.Data.Data[1] },
			"begin with a":  func(b *commonpb.Block) { b.Data.Data[0] = []byte("x") },
			// Two envelopes as one: the data hash is the same.
			"well-formed": func(b *commonpb.Block) {
				b.Data.Data = append([][]byte{slices.Concat(b.Data.Data[0], b.Data.Data[1])}, b.Data.Data[2:]...)
			},
			"metadata": func(b *commonpb.Block) { b.Metadata = nil },
		} {
			bad := proto.Clone(block).(*commonpb.Block)
			change(bad)
			require.ErrorContains(t, behind.Import(bad), what)
		}
		require.NoError(t, behind.Import(block))
	}
	assert.Equal(t, headers(t, ahead), headers(t, behind))
	assert.Equal(t, ahead.Applied(), behind.Applied())
	last := f.entry(3, false)
	// The log takes over again in the middle of the entry that block 2 ends in.
	require.NoError(t, behind.Apply(3, second))
	require.NoError(t, behind.Apply(4, last))
	require.NoError(t, ahead.Apply(4, last))
	require.Equal(t, uint64(4), ahead.Height())
	assert.Equal(t, headers(t, ahead), headers(t, behind))
	require.NoError(t, ahead.Close())
	require.NoError(t, behind.Close())
}

// TestABlockThatFailsForOurOwnFaultSaysSo: another orderer's copy of it would fail, too.
func TestABlockThatFailsForOurOwnFaultSaysSo(t *testing.T) {
	f := newFixture(t)
	source := f.open(t.TempDir())
	entry := f.entry(2, true)
	require.NoError(t, source.Apply(2, entry))
	block, err := source.Block(1)
	require.NoError(t, err)
	for what, test := range map[string]struct {
		before *streampb.LogEntry // what this orderer has of the block
		want   error
	}{
		"other transactions": {f.entry(1, false), ErrOtherLog},
		"more of them":       {&streampb.LogEntry{Txs: append(slices.Clone(entry.Txs[:2]), f.entry(1, false).Txs[0])}, ErrOtherLog},
		"no file":            {&streampb.LogEntry{}, os.ErrClosed},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprint(what, ", restarted: ", restarted), func(t *testing.T) {
				dir := t.TempDir()
				c := f.open(dir)
				c.cutter = cutter.New(10, 1<<20)
				require.NoError(t, c.Apply(2, test.before))
				if restarted {
					require.NoError(t, c.Close())
					c = f.open(dir)
				}
				if len(test.before.Txs) == 0 {
					require.NoError(t, c.store.Close())
				}
				for range 2 {
					err := c.Import(block)
					require.ErrorIs(t, err, ErrOwn)
					require.ErrorIs(t, err, test.want)
				}
				unsigned := proto.Clone(block).(*commonpb.Block)
				unsigned.Metadata = nil
				assert.NotErrorIs(t, c.Import(unsigned), ErrOwn)
			})
		}
	}
}

// TestWhatIsNoTransactionIsLeftOut: a leader, or somebody who writes to the topic, has brought it into the log. All
// leave it out, also those who find the entry half way applied.
func TestWhatIsNoTransactionIsLeftOut(t *testing.T) {
	f := newFixture(t)
	good := f.entry(4, false)
	bad := &streampb.LogEntry{Txs: [][]byte{
		good.Txs[0], slices.Concat(good.Txs[1], good.Txs[2]), nil, good.Txs[1], []byte("x"), good.Txs[2], append(slices.Clone(good.Txs[3]), 0x18, 1), good.Txs[3],
	}}
	dir := t.TempDir()
	one, other := f.open(dir), f.open(t.TempDir())
	require.NoError(t, one.Apply(2, good))
	require.NoError(t, other.Apply(2, bad))
	assert.Equal(t, headers(t, one), headers(t, other))
	for _, c := range []*Chain{one, other} {
		number, txs := c.Open()
		assert.Equal(t, []uint64{2, 1}, []uint64{number, uint64(txs)})
		require.NoError(t, c.Close())
	}
	again := f.open(other.store.Dir())
	require.NoError(t, again.Apply(2, bad))
	_, txs := again.Open()
	assert.Equal(t, 1, txs)
	require.NoError(t, again.Close())
}

// TestABlockThatCannotBeReadIsToldOfOnce on the orderer that has it, whether blocks are asked for or transactions.
func TestABlockThatCannotBeReadIsToldOfOnce(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	c := f.open(dir)
	require.NoError(t, c.Apply(2, f.entry(9, false)))
	var first [][]byte // transactions of blocks 1 and 2
	for number := uint64(1); number <= 2; number++ {
		block, err := c.Block(number)
		require.NoError(t, err)
		first = append(first, block.Data.Data[0])
	}
	require.NoError(t, c.Close())
	c = f.open(dir)
	defer func() { require.NoError(t, c.Close()) }()
	path := filepath.Join(dir, "segment-000000.blk")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, tx := range first {
		at := bytes.Index(raw, tx)
		require.Positive(t, at)
		raw[at] ^= 1
	}
	require.NoError(t, os.WriteFile(path, raw, 0o644)) // the same file, which c has open

	logged := opstest.Logged(t, func() {
		for range 2 {
			_, err := c.Block(1)
			require.Error(t, err)
			_, _, err = c.Read(t.Context(), Position{Block: 2})
			require.Error(t, err)
			_, err = c.Block(9)
			require.ErrorIs(t, err, blockfile.ErrNotFound)
		}
	})
	assert.Equal(t, 2, strings.Count(logged, "\n"), logged)
	for _, number := range []string{"1", "2"} {
		assert.Contains(t, logged, "ERRO [orderer.chain] Block -> [channel: ch] block ["+number+"] cannot be read: ledger file "+path)
	}
}

func TestAnUnusableFolderIsRefused(t *testing.T) {
	f := newFixture(t)
	_, err := Open(filepath.Join("/proc", "no", "such"), f.genesis, f.signer, RaftLog)
	require.Error(t, err)
}
