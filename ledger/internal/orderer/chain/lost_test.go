package chain

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// mending is a log that always has what is lost.
var mending = Log{External: true, Marshal: KafkaLog.Marshal, Parse: KafkaLog.Parse, Kept: func(blockfile.Lost) error { return nil }}

// mended is a chain that was damaged: blocks of three transactions, one in each entry, and an open one at the end.
type mended struct {
	*fixture
	dir     string
	entries []*streampb.LogEntry // the first has index 1
	before  []string             // headers
}

// damaged makes a chain of entries, and damages a transaction of it.
func damaged(t *testing.T, entries, at int) *mended {
	t.Helper()
	m := &mended{fixture: newFixture(t), dir: filepath.Join(t.TempDir(), "blocks")}
	for range entries {
		m.entries = append(m.entries, m.entry(1, false))
	}
	c, err := m.reopen()
	require.NoError(t, err)
	require.NoError(t, c.Apply(1, m.entries...))
	m.before = headers(t, c)
	require.NoError(t, c.Close())
	m.damage(at)
	return m
}

// damage zeroes the begin of a transaction in the file.
func (m *mended) damage(entry int) {
	path := filepath.Join(m.dir, "segment-000000.blk")
	raw, err := os.ReadFile(path)
	require.NoError(m.t, err)
	begin := bytes.Index(raw, m.entries[entry].Txs[0])
	require.Positive(m.t, begin)
	clear(raw[begin : begin+20])
	require.NoError(m.t, os.WriteFile(path, raw, 0o644))
}

// has reports whether a transaction is in the file.
func (m *mended) has(entry int) bool {
	raw, err := os.ReadFile(filepath.Join(m.dir, "segment-000000.blk"))
	require.NoError(m.t, err)
	return bytes.Contains(raw, m.entries[entry].Txs[0])
}

func (m *mended) reopen() (*Chain, error) { return Open(m.dir, m.genesis, m.signer, mending) }

// from are the entries that the log brings from where the chain asks for them.
func (m *mended) from(c *Chain) (first uint64, entries []*streampb.LogEntry) {
	first = max(1, c.From().Index)
	return first, m.entries[first-1:]
}

// TestWhatADamageTookComesAgain, wherever it is, and also when the orderer is restarted on the way.
func TestWhatADamageTookComesAgain(t *testing.T) {
	const entries = 11 // three blocks, and two transactions of the open one
	for at := range entries - 1 {
		for stopped := 0; stopped <= entries; stopped += 2 {
			m := damaged(t, entries, at)
			c, err := m.reopen()
			require.NoError(t, err)
			assert.Less(t, c.Height(), uint64(4+at/9))
			first, all := m.from(c)
			require.NoError(t, c.Apply(first, all[:max(0, stopped+1-int(first))]...))
			require.NoError(t, c.Close())
			c, err = m.reopen()
			require.NoError(t, err)
			first, all = m.from(c)
			require.NoError(t, c.Apply(first, all...))
			assert.Equal(t, m.before, headers(t, c))
			require.NoError(t, c.Apply(entries+1, m.entry(1, false)))
			assert.NoFileExists(t, filepath.Join(m.dir, lostFile))
			require.NoError(t, c.Close())
		}
	}
}

// TestALogThatLacksWhatWasLostIsAnotherOne: followers may have had all of it.
func TestALogThatLacksWhatWasLostIsAnotherOne(t *testing.T) {
	const entries = 11
	for at := range entries - 1 {
		for other := at; other < entries; other++ {
			if at >= 9 && other == at {
				continue // nobody knows what was there
			}
			m := damaged(t, entries, at)
			m.entries[other] = m.entry(1, false)
			c, err := m.reopen()
			require.NoError(t, err)
			first, all := m.from(c)
			err = c.Apply(first, all...)
			for i := uint64(1); err == nil && i < 9; i++ { // what goes on does not mend it
				err = c.Apply(entries+i, m.entry(1, false))
			}
			require.ErrorIs(t, err, ErrOtherLog, "damaged at %d, other at %d", at, other)
			require.NoError(t, c.Close())
			assert.FileExists(t, filepath.Join(m.dir, lostFile))
		}
	}
}

// TestAnotherSealedBlockThanTheLostOneIsRefused, though those have signed it who may: this orderer is at fault, or they are.
func TestAnotherSealedBlockThanTheLostOneIsRefused(t *testing.T) {
	m := damaged(t, 9, 4) // in block 2
	sealed := func(entries ...*streampb.LogEntry) *commonpb.Block {
		c, err := Open(t.TempDir(), m.genesis, m.signer, mending)
		require.NoError(t, err)
		require.NoError(t, c.Apply(1, entries...))
		block, err := c.Block(2)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		return block
	}
	for _, at := range []int{4, 5} { // the damaged transaction, and one behind it
		entries := slices.Clone(m.entries)
		entries[at] = m.entry(1, false)
		other := sealed(entries...)
		c, err := m.reopen()
		require.NoError(t, err)
		err = c.Import(other)
		require.ErrorIs(t, err, ErrOwn)
		require.ErrorIs(t, err, ErrOtherLog)
		require.NoError(t, c.Close())
	}
	c, err := m.reopen()
	require.NoError(t, err)
	require.NoError(t, c.Import(sealed(m.entries...)))
	require.NoError(t, c.Close())
}

// TestTheLogHasReachedWhatWasLost, so that one that ends before is seen to.
func TestTheLogHasReachedWhatWasLost(t *testing.T) {
	m := damaged(t, 9, 1)
	c, err := m.reopen()
	require.NoError(t, err)
	assert.Equal(t, uint64(10), c.Reached().Index)
	first, all := m.from(c)
	require.NoError(t, c.Apply(first, all...))
	assert.Equal(t, c.Applied(), c.Reached())
	require.NoError(t, c.Close())
}

// TestASecondDamageComesBeforeTheFirstIsMended: what both have taken away is compared.
func TestASecondDamageComesBeforeTheFirstIsMended(t *testing.T) {
	const entries = 16 // four blocks, and four transactions of the open one
	for first := 1; first < entries; first += 3 {
		for again := 2; again < entries; again += 4 {
			for at := 0; at < again; at += 3 {
				for _, other := range []int{-1, entries - 1} {
					m := damaged(t, entries, first)
					c, err := m.reopen()
					require.NoError(t, err)
					index, all := m.from(c)
					require.NoError(t, c.Apply(index, all[:max(0, again+1-int(index))]...))
					require.NoError(t, c.Close())
					if !m.has(at) || !m.has(at+1) {
						continue
					}
					m.damage(at)
					if other >= 0 {
						m.entries[other] = m.entry(1, false)
					}
					c, err = m.reopen()
					require.NoError(t, err)
					index, all = m.from(c)
					err = c.Apply(index, all...)
					if other >= 0 {
						assert.FileExists(t, filepath.Join(m.dir, lostFile))
						assert.True(t, errors.Is(err, ErrOtherLog) || c.Missing() > 0, "%d %d %d", first, again, at)
						require.NoError(t, c.Close())
						continue
					}
					require.NoError(t, err)
					assert.Equal(t, m.before, headers(t, c))
					require.NoError(t, c.Apply(entries+1, m.entry(1, false), m.entry(1, false)))
					assert.NoFileExists(t, filepath.Join(m.dir, lostFile))
					require.NoError(t, c.Close())
				}
			}
		}
	}
}

// TestDamageThatNobodyMendsIsRefused, and so is one before which what an earlier one has taken away cannot be read.
func TestDamageThatNobodyMendsIsRefused(t *testing.T) {
	m := damaged(t, 11, 5)
	never := mending
	never.Kept = func(blockfile.Lost) error { return errors.New("nobody has it") }
	var corrupt *blockfile.CorruptError
	_, err := Open(m.dir, m.genesis, m.signer, never)
	require.ErrorAs(t, err, &corrupt)
	file := filepath.Join(m.dir, lostFile)
	assert.NoFileExists(t, file)

	for _, of := range []string{"{", `{"Txs": ["aGFzaA=="], "Newest": 3}`, "{}{}"} {
		require.NoError(t, os.WriteFile(file, []byte(of), 0o600))
		said := opstest.Logged(t, func() { _, err = m.reopen() })
		require.ErrorAs(t, err, &corrupt, of)
		assert.Contains(t, said, file+" cannot be read: delete it")
	}
}

// TestACutThatFailedIsMadeAtTheNextStart: what was noted before it is the same then.
func TestACutThatFailedIsMadeAtTheNextStart(t *testing.T) {
	m := damaged(t, 11, 5)
	segment := filepath.Join(m.dir, "segment-000000.blk")
	before, err := os.ReadFile(segment)
	require.NoError(t, err)
	c, err := m.reopen()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, os.WriteFile(segment, before, 0o644))
	c, err = m.reopen()
	require.NoError(t, err)
	first, all := m.from(c)
	require.NoError(t, c.Apply(first, all...))
	assert.Equal(t, m.before, headers(t, c))
	require.NoError(t, c.Close())
}

// TestOneOtherTransactionIsNotTakenForADamagedOne, where what is behind the last seal is good.
func TestOneOtherTransactionIsNotTakenForADamagedOne(t *testing.T) {
	m := damaged(t, 11, 5)
	m.entries[9] = m.entry(1, false) // the first of the open block
	c, err := m.reopen()
	require.NoError(t, err)
	first, all := m.from(c)
	require.ErrorIs(t, c.Apply(first, all...), ErrOtherLog)
	require.NoError(t, c.Close())
}
