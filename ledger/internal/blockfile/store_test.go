package blockfile

import (
	"bytes"
	"errors"
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

// TestEveryFlippedBitInTheMiddleIsRefused damages each byte before the last frame in turn.
func TestEveryFlippedBitInTheMiddleIsRefused(t *testing.T) {
	dir, _ := ledger(t, 3, Options{})
	s := open(t, dir, Options{})
	middle := s.last().size
	require.NoError(t, s.AppendTx(3, 0, []byte("last frame"), 0))
	require.NoError(t, s.Close())
	path := filepath.Join(dir, segmentName(0))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range middle {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1 << (i % 8)
		require.NoError(t, os.WriteFile(path, damaged, 0o644))
		_, err := Open(dir, Options{})
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, "bit in byte %d", i)
		assert.Equal(t, path, corrupt.File)
		assert.LessOrEqual(t, corrupt.Offset, i)
		assert.NotEmpty(t, corrupt.Reason)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, damaged, after, "a refused ledger is left as it is")
	}
}

// TestTheSealBeforeDamageIsTold where it is in the segment before, too.
func TestTheSealBeforeDamageIsTold(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 1})
	for n := range uint64(3) {
		writeStream(t, s, testBlock(n, 3))
	}
	require.NoError(t, s.Close())
	path := filepath.Join(dir, segmentName(2))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(raw[segmentHeaderSize : segmentHeaderSize+20])
	require.NoError(t, os.WriteFile(path, raw, 0o644))
	var told []uint64
	s, err = Open(dir, Options{Kept: func(lost Lost) bool {
		for _, seal := range lost.Seals {
			assert.Nil(t, seal.Data)
			told = append(told, seal.Header.Number)
		}
		return true
	}})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.Equal(t, []uint64{1, 2}, told)
}

// TestDamageToWhatIsKeptElsewhereIsATornTail: a power cut may have left zeroes for the one of two writes, and the other.
func TestDamageToWhatIsKeptElsewhereIsATornTail(t *testing.T) {
	for name, c := range map[string]struct {
		kept func(Lost) bool
		cut  bool
	}{
		"nothing is kept": {nil, false},
		"it is kept":      {func(lost Lost) bool { return lost.Block == 3 }, true},
		"not all is kept": {func(lost Lost) bool { return lost.Seals[len(lost.Seals)-1].Header.Number < 5 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			var blocks []*commonpb.Block
			var damaged int64
			for n := range uint64(6) {
				if blocks = append(blocks, testBlock(n, 3)); n == 3 {
					require.NoError(t, s.AppendTx(n, 0, blocks[n].Data.Data[0], 0))
					damaged = s.last().size
					require.NoError(t, s.AppendTx(n, 1, blocks[n].Data.Data[1], 0))
					require.NoError(t, s.AppendTx(n, 2, blocks[n].Data.Data[2], 0))
					require.NoError(t, s.AppendSeal(blocks[n].Header, blocks[n].Metadata))
				} else {
					writeStream(t, s, blocks[n])
				}
			}
			require.NoError(t, s.Close())
			path := filepath.Join(dir, segmentName(0))
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			clear(raw[damaged : damaged+20])
			require.NoError(t, os.WriteFile(path, raw, 0o644))

			var seals []*commonpb.Block
			opts := Options{}
			if c.kept != nil {
				opts.Kept = func(lost Lost) bool {
					seals = lost.Seals
					return c.kept(lost)
				}
			}
			s, err = Open(dir, opts)
			if !c.cut {
				var corrupt *CorruptError
				require.ErrorAs(t, err, &corrupt)
				assert.Equal(t, damaged, corrupt.Offset)
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				assert.Equal(t, raw, after, "a refused ledger is left as it is")
				assert.NoFileExists(t, path+".damaged")
				return
			}
			require.NoError(t, err)
			same(t, s, blocks[:3])
			require.Len(t, seals, 4, "that of the block before, and those behind")
			for i, seal := range seals {
				want := &commonpb.Block{Header: blocks[2+i].Header, Metadata: blocks[2+i].Metadata}
				assert.True(t, proto.Equal(want, seal), "block %d", 2+i)
			}
			torn := Torn{File: path, Offset: damaged, Bytes: int64(len(raw)) - damaged, Aside: path + ".damaged"}
			assert.Equal(t, torn, s.Torn())
			aside, err := os.ReadFile(torn.Aside)
			require.NoError(t, err)
			assert.Equal(t, raw[damaged:], aside)
			block, tail := s.OpenTail()
			assert.EqualValues(t, 3, block)
			assert.Equal(t, []TailTx{{Data: blocks[3].Data.Data[0]}}, tail)
			assert.Equal(t, int64(len(raw))-damaged, s.TornBytes())
			require.NoError(t, s.AppendTx(3, 1, blocks[3].Data.Data[1], 0))
			require.NoError(t, s.AppendTx(3, 2, blocks[3].Data.Data[2], 0))
			require.NoError(t, s.AppendSeal(blocks[3].Header, blocks[3].Metadata))
			require.NoError(t, s.Close())
			s = open(t, dir, Options{})
			same(t, s, blocks[:4])
			require.NoError(t, s.Close())

			require.NoError(t, os.WriteFile(path, raw, 0o644))
			s = open(t, dir, opts)
			assert.Equal(t, path+"-2.damaged", s.Torn().Aside, "the first copy stays")
			require.NoError(t, s.Close())
		})
	}
}

func TestDamageToAnEarlierSegmentIsNeverATornTail(t *testing.T) {
	dir, _ := ledger(t, 10, Options{SegmentBytes: 100})
	first := filepath.Join(dir, segmentName(0))
	info, err := os.Stat(first)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(first, info.Size()-1))
	var corrupt *CorruptError
	_, err = Open(dir, Options{})
	require.ErrorAs(t, err, &corrupt)
	require.NoError(t, os.Remove(first))
	_, err = Open(dir, Options{})
	require.ErrorAs(t, err, &corrupt)
	assert.Contains(t, corrupt.Error(), "missing")
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

// failingFile fails on demand.
type failingFile struct {
	File
	write, sync error
}

func (f *failingFile) Write(p []byte) (int, error) {
	if f.write != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, f.write
	}
	return f.File.Write(p)
}

func (f *failingFile) Sync() error {
	if f.sync != nil {
		return f.sync
	}
	return f.File.Sync()
}

func TestDiskErrorsAreSticky(t *testing.T) {
	noSpace, io5 := errors.New("no space left on device"), errors.New("input/output error")
	for name, set := range map[string]func(*failingFile){
		"write": func(f *failingFile) { f.write = noSpace },
		"fsync": func(f *failingFile) { f.sync = io5 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var file *failingFile
			s, err := Open(dir, Options{OpenFile: func(path string) (File, error) {
				real, err := openAppend(path)
				file = &failingFile{File: real}
				return file, err
			}})
			require.NoError(t, err)
			require.NoError(t, s.AppendBlock(testBlock(0, 1)))
			require.NoError(t, s.Sync())
			require.NoError(t, s.AppendBlock(testBlock(1, 1)))
			set(file)
			first := s.Sync()
			require.Error(t, first)
			assert.Contains(t, first.Error(), dir)
			file.write, file.sync = nil, nil // the disk "recovers"; the store must not
			assert.ErrorContains(t, s.Sync(), "refused after an earlier failure")
			assert.ErrorContains(t, s.AppendBlock(testBlock(2, 1)), "refused after an earlier failure")
			assert.ErrorContains(t, s.AppendTx(2, 0, nil, 0), "refused after an earlier failure")
			_ = s.Close()

			s = open(t, dir, Options{})
			assert.GreaterOrEqual(t, s.Height(), uint64(1), "what was synced is there")
		})
	}
}

// TestWhatIsFoundIsDurable before anybody is told of it: a killed process may have left frames that it had not synced.
func TestWhatIsFoundIsDurable(t *testing.T) {
	small := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 20, small)
	var synced []string
	small.OpenFile = func(path string) (File, error) {
		real, err := openAppend(path)
		return syncedFile{real, func() { synced = append(synced, path) }}, err
	}
	s := open(t, dir, small)
	assert.EqualValues(t, len(blocks), s.Height())
	assert.Equal(t, []string{s.last().path}, synced, "all others were synced before it was begun")
	require.NoError(t, s.Close())

	full := errors.New("no space left on device")
	_, err := Open(dir, Options{OpenFile: func(path string) (File, error) {
		real, err := openAppend(path)
		return &failingFile{File: real, sync: full}, err
	}})
	require.ErrorIs(t, err, full)
	open(t, dir, Options{ReadOnly: true})
}

// syncedFile tells when it is synced.
type syncedFile struct {
	File
	tell func()
}

func (f syncedFile) Sync() error {
	f.tell()
	return f.File.Sync()
}
