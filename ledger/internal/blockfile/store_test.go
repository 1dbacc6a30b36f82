package blockfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

func testBlock(number uint64, txs int) *commonpb.Block {
	b := &commonpb.Block{
		Header:   &commonpb.BlockHeader{Number: number, PreviousHash: []byte{1, byte(number)}, DataHash: []byte("hash")},
		Data:     &commonpb.BlockData{},
		Metadata: &commonpb.BlockMetadata{Metadata: [][]byte{[]byte("sig"), {}, make([]byte, txs)}},
	}
	for i := range txs {
		b.Data.Data = append(b.Data.Data, []byte(fmt.Sprintf("transaction %d of block %d", i, number)))
	}
	return b
}

// writeStream appends a block piece by piece.
func writeStream(t *testing.T, s *Store, b *commonpb.Block) {
	t.Helper()
	for i, tx := range b.Data.Data {
		require.NoError(t, s.AppendTx(b.Header.Number, uint64(i), tx, byte(i)))
	}
	require.NoError(t, s.AppendSeal(b.Header, b.Metadata))
}

func open(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// ledger writes blocks 0..n-1, alternately whole and in pieces, and closes the store.
func ledger(t *testing.T, n int, opts Options) (dir string, blocks []*commonpb.Block) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, opts)
	for i := range n {
		b := testBlock(uint64(i), 1+i%4)
		if i%2 == 0 {
			require.NoError(t, s.AppendBlock(b))
		} else {
			writeStream(t, s, b)
		}
		blocks = append(blocks, b)
	}
	require.NoError(t, s.Close())
	return dir, blocks
}

func TestRoundTripOverSegments(t *testing.T) {
	opts := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 20, opts)
	segments, err := listSegments(dir)
	require.NoError(t, err)
	assert.Greater(t, len(segments), 3)

	for _, readOnly := range []bool{false, true} {
		s := open(t, dir, Options{SegmentBytes: 300, ReadOnly: readOnly})
		assert.EqualValues(t, len(blocks), s.Height())
		it := s.Iterator(0)
		for _, want := range blocks {
			got, err := it.Next()
			require.NoError(t, err)
			assert.True(t, proto.Equal(want, got), "block %d", want.Header.Number)
		}
		_, err := it.Next()
		assert.ErrorIs(t, err, io.EOF)
		_, err = s.Block(20)
		assert.ErrorIs(t, err, ErrNotFound)
		require.NoError(t, s.Close())
	}
}

func TestReadsWhatIsStillInTheBuffer(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	b := testBlock(0, 3)
	writeStream(t, s, b)
	got, err := s.Block(0)
	require.NoError(t, err)
	assert.True(t, proto.Equal(b, got))
}

func TestOpenTailIsFoundAndGoneOn(t *testing.T) {
	dir, _ := ledger(t, 2, Options{})
	s := open(t, dir, Options{})
	require.NoError(t, s.AppendTx(2, 0, []byte("a"), 11))
	require.NoError(t, s.AppendTx(2, 1, []byte("b"), 0))
	require.NoError(t, s.Close())

	s = open(t, dir, Options{})
	block, tail := s.OpenTail()
	assert.EqualValues(t, 2, block)
	assert.Equal(t, []TailTx{{[]byte("a"), 11}, {[]byte("b"), 0}}, tail)
	require.NoError(t, s.AppendTx(2, 2, []byte("c"), 0))
	require.NoError(t, s.AppendSeal(&commonpb.BlockHeader{Number: 2}, nil))
	got, err := s.Block(2)
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("a"), []byte("b"), []byte("c")}, got.Data.Data)
}

func TestOutOfOrderIsRefusedAndHarmless(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	require.NoError(t, s.AppendBlock(testBlock(0, 1)))
	require.NoError(t, s.AppendTx(1, 0, []byte("x"), 0))
	assert.ErrorContains(t, s.AppendTx(1, 0, []byte("x"), 0), "out of order")
	assert.ErrorContains(t, s.AppendTx(2, 1, []byte("x"), 0), "out of order")
	assert.ErrorContains(t, s.AppendBlock(testBlock(1, 1)), "out of order")
	assert.ErrorContains(t, s.AppendSeal(&commonpb.BlockHeader{Number: 3}, nil), "out of order")
	require.NoError(t, s.AppendTx(1, 1, []byte("y"), 0))
}

func TestSecondWriterIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	_, err := Open(dir, Options{})
	assert.ErrorContains(t, err, "in use")
	reader := open(t, dir, Options{ReadOnly: true})
	assert.ErrorIs(t, reader.AppendBlock(testBlock(0, 1)), ErrReadOnly)
}

// TestEveryTornTailIsCut cuts the file at every byte of the last two frames.
func TestEveryTornTailIsCut(t *testing.T) {
	dir, blocks := ledger(t, 3, Options{})
	s := open(t, dir, Options{})
	keep := s.last().size
	require.NoError(t, s.AppendTx(3, 0, []byte("first"), 1))
	mid := s.last().size
	require.NoError(t, s.AppendTx(3, 1, []byte("second"), 2))
	require.NoError(t, s.Close())
	path := filepath.Join(dir, segmentName(0))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)

	for cut := keep; cut < int64(len(whole)); cut++ {
		for _, zeros := range []int{0, 40} { // a crash may leave the file longer than what was written
			require.NoError(t, os.WriteFile(path, append(whole[:cut:cut], make([]byte, zeros)...), 0o644))
			reader := open(t, dir, Options{ReadOnly: true})
			s := open(t, dir, Options{})
			_, tail := s.OpenTail()
			good := keep
			if cut >= mid {
				good = mid
			}
			assert.Equal(t, cut+int64(zeros)-good, s.TornBytes(), "cut at %d", cut)
			assert.Equal(t, s.TornBytes(), reader.TornBytes())
			assert.Len(t, tail, map[bool]int{true: 1, false: 0}[cut >= mid])
			assert.EqualValues(t, len(blocks), s.Height())
			require.NoError(t, s.AppendTx(3, uint64(len(tail)), []byte("again"), 0))
			require.NoError(t, s.Close())
			s = open(t, dir, Options{})
			assert.Zero(t, s.TornBytes())
			_, again := s.OpenTail()
			assert.Len(t, again, len(tail)+1)
			require.NoError(t, s.Close())
		}
	}
}

func TestSegmentWithoutHeaderIsDropped(t *testing.T) {
	dir, blocks := ledger(t, 2, Options{})
	torn := filepath.Join(dir, segmentName(1))
	header := encodeSegmentHeader(1, uint64(len(blocks)))
	for cut := range header { // and zeroes up to its size
		for _, content := range [][]byte{header[:cut], append(header[:cut:cut], make([]byte, segmentHeaderSize-cut)...)} {
			if bytes.Equal(content, header) {
				continue // it ends in zeroes by chance
			}
			require.NoError(t, os.WriteFile(torn, content, 0o644))
			s := open(t, dir, Options{})
			assert.EqualValues(t, len(blocks), s.Height())
			assert.NoFileExists(t, torn)
			require.NoError(t, s.Close())
		}
	}
}

// TestTheSegmentBeforeADroppedOneIsTheLastAgain, with its index or without.
func TestTheSegmentBeforeADroppedOneIsTheLastAgain(t *testing.T) {
	small := Options{SegmentBytes: 300}
	for _, indexed := range []bool{true, false} {
		dir, blocks := ledger(t, 40, small)
		paths, err := listSegments(dir)
		require.NoError(t, err)
		torn := filepath.Join(dir, segmentName(len(paths)))
		require.NoError(t, os.WriteFile(torn, nil, 0o644))
		s := open(t, dir, small) // which writes missing indexes
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(torn, nil, 0o644))
		if !indexed {
			require.NoError(t, os.RemoveAll(indexPath(paths[len(paths)-1])))
		}
		same(t, open(t, dir, Options{ReadOnly: true}), blocks)
		s = open(t, dir, small)
		same(t, s, blocks)
		for n := len(blocks); n < 80; n++ {
			blocks = append(blocks, testBlock(uint64(n), 2))
			require.NoError(t, s.AppendBlock(blocks[n]))
		}
		same(t, s, blocks)
	}
}

// TestAClientCannotForgeAFrame: a torn transaction that carries the bytes of an
// older frame is a torn tail all the same.
func TestAClientCannotForgeAFrame(t *testing.T) {
	dir, _ := ledger(t, 2, Options{})
	path := filepath.Join(dir, segmentName(0))
	frames, err := os.ReadFile(path)
	require.NoError(t, err)
	s := open(t, dir, Options{})
	require.NoError(t, s.AppendTx(2, 0, frames[segmentHeaderSize:], 0))
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()-1))
	s = open(t, dir, Options{})
	assert.EqualValues(t, 2, s.Height())
	assert.Positive(t, s.TornBytes())
}
