package blockfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

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
