package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"os"

	"github.com/qioi/qioi/ledger/internal/statedb"
)

// magic begins a state file: the point, the checksum of the ids, then for each namespace its
// name and its keys, in order, and at the end the SHA-256 of all that. Numbers are uvarints,
// texts have their length before them.
const magic = "QIOICKP1"

// chunk is how much is written between two syncs: a disk that also serves the chain's own
// syncs must never have much of a checkpoint before it.
const chunk = 4 << 20

// synced writes a file in chunks, each durable before the next; errors stay until close.
type synced struct {
	file *os.File
	sum  hash.Hash // nil: nobody asks
	buf  []byte
	err  error
}

func newSynced(file *os.File) *synced {
	return &synced{file: file, buf: make([]byte, 0, chunk+chunk/4)}
}

func (s *synced) write(b []byte) {
	s.buf = append(s.buf, b...)
	s.flushIfLarge()
}

func (s *synced) uint(v uint64) { s.buf = binary.AppendUvarint(s.buf, v) }

func (s *synced) text(b []byte) {
	s.uint(uint64(len(b)))
	s.write(b)
}

func (s *synced) string(text string) {
	s.uint(uint64(len(text)))
	s.buf = append(s.buf, text...)
	s.flushIfLarge()
}

func (s *synced) flushIfLarge() {
	if len(s.buf) >= chunk {
		s.flush()
	}
}

func (s *synced) flush() {
	if s.err == nil {
		if s.sum != nil {
			_, _ = s.sum.Write(s.buf) // a hash never errs
		}
		if _, s.err = s.file.Write(s.buf); s.err == nil {
			s.err = s.file.Sync()
		}
	}
	s.buf = s.buf[:0]
}

func (s *synced) close() error {
	s.flush()
	return s.err
}

// writeState writes a state file, durably but for its name.
func writeState(path string, p Point, ids []byte, state *statedb.Snapshot) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	out := newSynced(file)
	out.sum = sha256.New()
	out.write([]byte(magic))
	out.string(p.Channel)
	out.uint(p.Blocks)
	out.text(p.Hash)
	out.text(p.Commit)
	out.uint(p.Config)
	out.uint(p.Transactions)
	out.uint(p.IDs)
	out.text(ids)
	names := state.Namespaces()
	out.uint(uint64(len(names)))
	for _, name := range names {
		out.string(name)
		out.uint(uint64(state.Size(name)))
		state.Each(name, func(e *statedb.Entry) bool {
			out.string(e.Key)
			out.uint(e.Version.Block)
			out.uint(e.Version.Tx)
			out.text(e.Value)
			return out.err == nil
		})
	}
	out.flush()
	sum := out.sum.Sum(nil)
	out.sum = nil
	out.write(sum)
	return errors.Join(out.close(), file.Close())
}

// reader takes a state file apart. Its bytes have passed their checksum, yet it believes no length.
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
		Config: r.uint(), Transactions: r.uint(), IDs: r.uint(),
	}
}

func (r *reader) state() *statedb.DB {
	db := statedb.New()
	for spaces := r.uint(); spaces > 0 && !r.failed; spaces-- {
		name := string(r.bytes())
		for keys := r.uint(); keys > 0 && !r.failed; keys-- {
			e := &statedb.Entry{Key: string(r.bytes()), Version: statedb.Version{Block: r.uint(), Tx: r.uint()}}
			// A copy: a value must not keep the whole file in memory.
			e.Value = append(make([]byte, 0), r.bytes()...)
			db.Load(name, e)
		}
	}
	r.failed = r.failed || len(r.rest) > 0
	return db
}
