package blockfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzOpen feeds arbitrary bytes behind a good segment header: Open must give a
// clear answer, and a ledger that opens must be readable to its end.
func FuzzOpen(f *testing.F) {
	const nonce = 7
	var good []byte
	good, start := appendFrameHeader(good)
	good = append(good, 0x12, 3, 0x0a, 1, 'x')
	finishFrame(good, start, nonce, segmentHeaderSize, kindTx, 0)
	f.Add(good)
	seal, start := appendFrameHeader(append([]byte(nil), good...))
	seal = append(seal, 0x0a, 0)
	finishFrame(seal, start, nonce, segmentHeaderSize+int64(len(good)), kindSeal, 0)
	f.Add(seal)
	f.Add([]byte{})
	f.Add(make([]byte, 100))

	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file := append(encodeSegmentHeader(nonce, 0), data...)
		require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(0)), file, 0o644))
		s, err := Open(dir, Options{})
		if err != nil {
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			return
		}
		defer func() { _ = s.Close() }()
		for n := range s.Height() {
			_, err := s.Block(n)
			require.NoError(t, err) // without an index Open has read every frame
		}
	})
}
