package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"

	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/statedb"
)

// magic begins a state file: the point, then for each namespace its name and its keys, in order, then the refused
// transactions, the oldest first, and at the end the SHA-256 of all that. Numbers are uvarints, texts have their length
// before them. A file of the format before, which begins with formerMagic, has no refused transactions.
const (
	magic       = "QIOICKP4"
	formerMagic = "QIOICKP3"
)

const bufferBytes = 64 << 10

// encoder writes a state file; errors stay until the end.
type encoder struct {
	out io.Writer
	buf []byte
	err error
}

func (e *encoder) uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }

func (e *encoder) text(b []byte) {
	e.uint(uint64(len(b)))
	e.buf = append(e.buf, b...)
	e.flushIfLarge()
}

func (e *encoder) string(text string) {
	e.uint(uint64(len(text)))
	e.buf = append(e.buf, text...)
	e.flushIfLarge()
}

func (e *encoder) flushIfLarge() {
	if len(e.buf) >= bufferBytes {
		e.flush()
	}
}

func (e *encoder) flush() {
	if e.err == nil {
		_, e.err = e.out.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

// writeState writes a state file's content.
func writeState(w io.Writer, p Point, state *statedb.Snapshot, refused []txids.ID) error {
	sum := sha256.New()
	out := encoder{out: io.MultiWriter(w, sum), buf: make([]byte, 0, bufferBytes+bufferBytes/4)}
	out.buf = append(out.buf, magic...)
	out.string(p.Channel)
	out.uint(p.Blocks)
	out.text(p.Hash)
	out.text(p.Commit)
	out.uint(p.Config)
	out.uint(p.Transactions)
	names := state.Namespaces()
	out.uint(uint64(len(names)))
	for _, name := range names {
		out.string(name)
		out.uint(uint64(state.Size(name)))
		state.Each(name, func(e statedb.Entry) bool {
			out.string(e.Key)
			out.uint(e.Version.Block)
			out.uint(e.Version.Tx)
			out.string(e.Version.Hash)
			out.string(e.Value)
			return out.err == nil
		})
	}
	out.uint(uint64(len(refused)))
	for i := range refused {
		id := &refused[i]
		out.text(id.Key[:])
		out.uint(id.Block)
		out.uint(uint64(id.Tx))
		out.uint(uint64(id.Code))
	}
	out.flush()
	if out.err != nil {
		return out.err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// reader takes a state file apart. Its bytes have passed their checksum; lengths are checked all the same.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes aliases the file's buffer.
func (r *reader) bytes() []byte {
	n := r.uint()
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) point() Point {
	return Point{
		Channel: string(r.bytes()), Blocks: r.uint(), Hash: append([]byte(nil), r.bytes()...), Commit: append([]byte(nil), r.bytes()...),
		Config: r.uint(), Transactions: r.uint(),
	}
}

func (r *reader) state() *statedb.DB {
	db := statedb.New()
	for spaces := r.uint(); spaces > 0 && !r.failed; spaces-- {
		name := string(r.bytes())
		for keys := r.uint(); keys > 0 && !r.failed; keys-- {
			key, version := string(r.bytes()), statedb.Version{Block: r.uint(), Tx: r.uint(), Hash: string(r.bytes())}
			db.Load(name, key, version, r.bytes())
		}
	}
	return db
}

// refused are transactions before the block with that number.
func (r *reader) refused(blocks uint64) (ids []txids.ID) {
	for n := r.uint(); n > 0 && !r.failed; n-- {
		key, block, tx, code := r.bytes(), r.uint(), r.uint(), r.uint()
		if len(key) != sha256.Size || block >= blocks || tx >= txids.WholeBlock || code > math.MaxUint8 {
			r.failed = true
			return nil
		}
		ids = append(ids, txids.ID{Key: [sha256.Size]byte(key), Block: block, Tx: uint32(tx), Code: uint8(code)})
	}
	return ids
}
