package blockfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/ops/opstest"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

func same(t *testing.T, s *Store, want []*commonpb.Block) {
	t.Helper()
	require.EqualValues(t, len(want), s.Height())
	for n, b := range want {
		got, err := s.Block(uint64(n))
		require.NoError(t, err)
		require.True(t, proto.Equal(b, got), "block %d", n)
	}
}

// TestAnIndexIsAsGoodAsReading: whatever is wrong with an index, the ledger is the same, and the
// index is there again.
func TestAnIndexIsAsGoodAsReading(t *testing.T) {
	small := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 12, small)
	first := filepath.Join(dir, segmentName(1))
	whole, err := os.ReadFile(indexPath(first))
	require.NoError(t, err)
	other, err := os.ReadFile(indexPath(filepath.Join(dir, segmentName(0))))
	require.NoError(t, err)
	spoiled := [][]byte{nil, whole[:len(whole)-1], other, append(whole[:len(whole):len(whole)], 0)}
	for at := 0; at < len(whole); at += 3 {
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 4
		spoiled = append(spoiled, flipped)
	}
	for _, raw := range spoiled {
		require.NoError(t, os.WriteFile(indexPath(first), raw, 0o644))
		s := open(t, dir, small)
		same(t, s, blocks)
		require.NoError(t, s.Close())
		mended, err := os.ReadFile(indexPath(first))
		require.NoError(t, err)
		require.Equal(t, whole, mended)
	}
	require.NoError(t, os.Remove(indexPath(first)))
	same(t, open(t, dir, Options{ReadOnly: true}), blocks)
	assert.NoFileExists(t, indexPath(first))
}

// TestDamageBehindAnIndexIsSeenWhenItIsRead, and at once by whoever opens for reading, as inspect does.
func TestDamageBehindAnIndexIsSeenWhenItIsRead(t *testing.T) {
	dir, blocks := ledger(t, 12, Options{SegmentBytes: 300})
	path := filepath.Join(dir, segmentName(1))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	raw[len(raw)-5]++
	require.NoError(t, os.WriteFile(path, raw, 0o644))
	s := open(t, dir, Options{})
	require.EqualValues(t, len(blocks), s.Height())
	var corrupt *CorruptError
	bad := 0
	for n := range s.Height() {
		if _, err := s.Block(n); err != nil {
			require.ErrorAs(t, err, &corrupt)
			assert.Equal(t, path, corrupt.File)
			bad++
		}
	}
	assert.Equal(t, 1, bad)
	_, err = Open(dir, Options{ReadOnly: true})
	require.ErrorAs(t, err, &corrupt)
}

// TestPlacesOfFinishedSegmentsLeaveMemory, and come back by their index, or by the segment itself where that is lost.
func TestPlacesOfFinishedSegmentsLeaveMemory(t *testing.T) {
	small := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 80, small)
	s := open(t, dir, small)
	require.Greater(t, len(s.segments), 2*placedSegments)
	held := func() (n int) {
		for _, seg := range s.segments {
			if seg.places != nil {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 1, held(), "the last one's")
	same(t, s, blocks)
	assert.Equal(t, placedSegments+1, held())
	for _, seg := range s.segments {
		_ = os.Remove(indexPath(seg.path)) // the last one has none
	}
	same(t, s, blocks)
	for n := len(blocks); n < 120; n++ {
		require.NoError(t, s.AppendBlock(testBlock(uint64(n), 2)))
		blocks = append(blocks, testBlock(uint64(n), 2))
	}
	assert.Equal(t, placedSegments+1, held())
	same(t, s, blocks)
}

// TestCommitsGoOnWhileAFileIsRead: finding a block may take the reading of a whole file.
func TestCommitsGoOnWhileAFileIsRead(t *testing.T) {
	small := Options{SegmentBytes: 300}
	dir, blocks := ledger(t, 12, small)
	s := open(t, dir, small)
	slow := s.segments[1]
	require.NoError(t, os.Remove(indexPath(slow.path)))
	require.NoError(t, syscall.Mkfifo(indexPath(slow.path), 0o600)) // who reads it waits
	read := make(chan error, 3)
	for range cap(read) {
		go func() {
			got, err := s.Block(slow.firstBlock)
			if err == nil && !proto.Equal(blocks[slow.firstBlock], got) {
				err = errors.New("another block")
			}
			read <- err
		}()
	}
	fifo, err := os.OpenFile(indexPath(slow.path), os.O_WRONLY, 0) // as soon as somebody reads it
	require.NoError(t, err)
	committed := make(chan error, 1)
	go func() { committed <- errors.Join(s.AppendBlock(testBlock(12, 1)), s.Sync()) }()
	select {
	case err := <-committed:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Error("the commit waits for the reader")
	}
	require.NoError(t, os.Remove(indexPath(slow.path)))
	require.NoError(t, fifo.Close())
	for range cap(read) {
		require.NoError(t, <-read)
	}
	same(t, s, append(blocks, testBlock(12, 1)))
}

// TestAnIndexThatCannotBeWrittenIsLogged: the blocks are found without it, at the cost of reading all of a file.
func TestAnIndexThatCannotBeWrittenIsLogged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 300})
	require.NoError(t, os.Mkdir(indexPath(filepath.Join(dir, segmentName(0))), 0o755))
	var blocks []*commonpb.Block
	log := opstest.Logged(t, func() {
		for n := range 3 * placedSegments * 4 {
			blocks = append(blocks, testBlock(uint64(n), 2))
			require.NoError(t, s.AppendBlock(blocks[n]))
		}
	})
	require.Nil(t, s.segments[0].places)
	assert.Contains(t, log, "segment-000000.idx: is a directory: all of segment-000000.blk is read to find its blocks")
	assert.NotContains(t, log, "segment-000001")
	same(t, s, blocks)
}
