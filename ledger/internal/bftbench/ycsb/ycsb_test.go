package ycsb

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qioi/qioi/ledger/internal/bftbench/auth"
	"github.com/qioi/qioi/ledger/internal/orderer/consensus/bft"
)

func TestABatchKeepsTransactionsAndTheirSignatures(t *testing.T) {
	keys, err := auth.NewKeys(auth.ED25519, 4, 2)
	require.NoError(t, err)
	replica, err := auth.New(keys, 1)
	require.NoError(t, err)
	load := Load{Records: 100, Skew: 0.9, Operations: 3, Burst: 2, Value: 8, Padding: 5}
	source := NewSource(load, load.Law(), 7)
	var frame bft.Writer
	for number := range uint64(4) {
		machine := int(number % 2)
		client, err := auth.New(keys, auth.Machine(machine))
		require.NoError(t, err)
		source.Append(&frame, client.Requests, uint64(machine)<<MachineBits|5, number+1)
	}
	r := bft.NewReader(frame.Bytes)
	var txs []Signed
	for range 4 {
		txs = append(txs, ReadSigned(r))
	}
	require.NoError(t, r.Err())

	batch := Batch(txs, 1)
	assert.True(t, Check(batch, replica.Requests))
	numbers := []uint64{}
	require.NoError(t, Unbatch(batch, func(s Signed) bool {
		client, number := Who(s.Body)
		table := counting{}
		assert.NoError(t, Execute(s.Body, table))
		writes := 0.0
		for _, often := range table {
			writes += often
		}
		assert.Equal(t, 6.0, writes)
		assert.Equal(t, uint64(5), client&(1<<MachineBits-1))
		numbers = append(numbers, number)
		return true
	}))
	assert.Equal(t, []uint64{1, 2, 3, 4}, numbers)

	batch[len(batch)-1] ^= 1
	assert.False(t, Check(batch, replica.Requests), "a changed signature")
	assert.False(t, Check(batch[:len(batch)-1], replica.Requests), "a cut batch")
}

// TestATransactionIsTheSameWhoeverMakesIt: a client that sends it again sends no other one under its number.
func TestATransactionIsTheSameWhoeverMakesIt(t *testing.T) {
	load := Load{Records: 1_000_000, Operations: 4, Burst: 2, Value: 8, Padding: 3}
	keys, err := auth.NewKeys(auth.ED25519, 4, 1)
	require.NoError(t, err)
	client, err := auth.New(keys, auth.Machine(0))
	require.NoError(t, err)
	law := load.Law()
	one, other, another := NewSource(load, law, 7), NewSource(load, law, 7), NewSource(load, law, 8)
	made := func(s *Source, who, number uint64) string {
		w := &bft.Writer{}
		s.Append(w, client.Requests, who, number)
		return string(w.Bytes)
	}
	all := map[string]bool{}
	for who := range uint64(20) {
		for number := range uint64(20) {
			all[made(one, who, number)] = true
		}
	}
	for number := range uint64(20) {
		for who := range uint64(20) {
			assert.True(t, all[made(other, who, number)])
		}
	}
	assert.False(t, all[made(another, 3, 3)])
}

// TestTransactionsOfOneSourceAreDrawnByTheLaw, also those of one client and those with one number.
func TestTransactionsOfOneSourceAreDrawnByTheLaw(t *testing.T) {
	load := Load{Records: 1000, Skew: 0.9, Operations: 1, Burst: 1, Value: 8}
	law, zeta := load.Law(), 0.0
	for i := range load.Records {
		zeta += math.Pow(float64(i+1), -load.Skew)
	}
	for name, of := range map[string]func(i uint64) (client, number uint64){
		"one client": func(i uint64) (uint64, uint64) { return 3, i }, "one number": func(i uint64) (uint64, uint64) { return i, 3 },
	} {
		source, table := NewSource(load, law, 1), counting{}
		const draws = 100_000
		for i := range uint64(draws) {
			client, number := of(i)
			w := &bft.Writer{}
			source.Append(w, nobody{}, client, number)
			require.NoError(t, Execute(ReadSigned(bft.NewReader(w.Bytes)).Body, table))
		}
		assert.InDelta(t, 1/zeta, table[0]/draws, 0.01, name)
		assert.InDelta(t, math.Pow(2, -load.Skew)/zeta, table[1]/draws, 0.01, name)
	}
}

// counting has how often each key was written.
type counting map[uint64]float64

func (c counting) Begin() error                   { return nil }
func (c counting) Commit() error                  { return nil }
func (c counting) Close() error                   { return nil }
func (c counting) Write(k uint64, _ []byte) error { c[k]++; return nil }

// nobody signs nothing.
type nobody struct{ auth.Authenticator }

func (nobody) Broadcast([]byte) []byte { return nil }

func TestALoadOutOfBoundsIsRefused(t *testing.T) {
	for _, good := range []Load{
		{Records: 2, Operations: 1, Burst: 1, Value: 1}, {Records: 100_000_000, Operations: 1, Burst: 1, Value: 1},
		{Records: 100_000_000, Operations: 1, Burst: 1, Value: 53}, {Records: 130_000, Operations: 1, Burst: 1, Value: 1 << 16},
	} {
		require.NoError(t, good.Validate())
	}
	for _, bad := range []Load{
		{Records: 1, Operations: 1, Burst: 1, Value: 1}, {Records: 2, Skew: 1, Operations: 1, Burst: 1, Value: 1},
		{Records: 2, Burst: 1, Value: 1}, {Records: 2, Operations: 1, Burst: 1}, {Records: 2, Operations: 1, Value: 1},
		{Records: 100_000_001, Operations: 1, Burst: 1, Value: 1}, {Records: 100_000_000, Operations: 1, Burst: 1, Value: 54},
	} {
		assert.Error(t, bad.Validate())
	}
}
