package txids

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"slices"
	"sort"
	"sync/atomic"
	"syscall"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/mapped"
)

// A run's file: a page with its header, pages of records in the order of their keys, then for each
// of these the first eight bytes of its first key (the fences), the Bloom filter, and a checksum of
// fences and filter. Every page ends in a checksum of its own.
const (
	magic      = "QIOIIDS2"
	pageSize   = 4096
	recordSize = 48 // key, block, number, verdict, three zeroes
	perPage    = (pageSize - crc32.Size) / recordSize
	fenceSize  = 8
	bitsPerID  = 16 // with eight probes, one in 1,700 unknown ids costs a read
	probes     = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// span is what a run stands for: all ids of blocks first to end-1, and the chain that they are of.
type span struct {
	first, end uint64
	hash       [sha256.Size]byte // of block end-1's header
	count      uint64
}

func (s span) pages() int64 { return int64((s.count + perPage - 1) / perPage) }
func (s span) words() int64 { return max(1, int64(s.count)*bitsPerID/64) }
func (s span) tail() int64  { return s.pages()*fenceSize + s.words()*8 }
func (s span) name() string { return fmt.Sprintf("%s%012d-%012d", prefix, s.first, s.end) }

// run is an open file of ids.
type run struct {
	span
	path   string
	file   *os.File
	mapped []byte // all of it
	fences []byte // and filter are read there: the kernel keeps as much of them in memory as it has room for
	filter []byte

	forsaken atomic.Bool // it is damaged, and its file is gone: the next start makes it again
}

// openRun checks all but the pages of records, which are checked when they are read.
func openRun(path string) (_ *run, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &run{path: path, file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	head := make([]byte, pageSize)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, r.unread("header", err)
	}
	if string(head[:len(magic)]) != magic || !sumFits(head) {
		return nil, r.damaged("its header does not begin with " + magic + " or its checksum does not fit")
	}
	at := head[len(magic):]
	r.first, r.end, r.count = binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[8:]), binary.LittleEndian.Uint64(at[16:])
	copy(r.hash[:], at[24:])
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// The count has passed a checksum; the size says that it is also this file's.
	offset := pageSize * (1 + r.pages())
	if r.count > 1<<40 || info.Size() != offset+r.tail()+crc32.Size {
		return nil, r.damaged(fmt.Sprintf("it has %d bytes", info.Size()))
	}
	// From the beginning: where the host's pages are larger than ours the offset would be refused.
	if r.mapped, err = syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	end := r.mapped[offset:]
	var fits bool
	if err := mapped.Guard(r.mapped, func() { fits = sumFits(end) }); err != nil {
		return nil, r.damaged(err.Error())
	}
	if !fits {
		return nil, r.damaged("the checksum of its filter does not fit")
	}
	r.fences, r.filter = end[:r.pages()*fenceSize], end[r.pages()*fenceSize:r.tail()]
	return r, nil
}

func (r *run) damaged(why string) error { return fmt.Errorf("%s: %w: %s", r.path, ErrDamaged, why) }

// unread says why a part was not read. A bad sector, or a shortened file, is damage: it would fail again at each start.
func (r *run) unread(part string, err error) error {
	if errors.Is(err, syscall.EIO) || err == io.EOF {
		return r.damaged(fmt.Sprintf("%s: %s", part, err))
	}
	return fmt.Errorf("%s: %w", r.path, err)
}

func (r *run) close() error {
	var err error
	if r.mapped != nil {
		err = syscall.Munmap(r.mapped)
		r.mapped, r.fences, r.filter = nil, nil, nil
	}
	return errors.Join(err, r.file.Close())
}

// forsake lets the next start make a damaged run again from the blocks, by removing its file.
func (r *run) forsake(err error) error {
	err = fmt.Errorf("%w; the next start makes it again from the blocks", err)
	if r.forsaken.Swap(true) {
		return err
	}
	return errors.Join(err, os.Remove(r.path))
}

func sumFits(b []byte) bool {
	body := len(b) - crc32.Size
	return crc32.Checksum(b[:body], castagnoli) == binary.LittleEndian.Uint32(b[body:])
}

// probe gives the filter's bits for a key: ids are SHA-256 hashes, so their own bytes will do.
func probe(key *[sha256.Size]byte, words int64, i uint64) (word int, mask uint64) {
	h := binary.BigEndian.Uint64(key[8:]) + i*(binary.BigEndian.Uint64(key[16:])|1)
	bit, _ := bits.Mul64(h, uint64(words)*64)
	return int(bit / 64), 1 << (bit % 64)
}

// mayHave is wrong for one in 1,700 that the run does not have, and never for one that it has.
func (r *run) mayHave(key *[sha256.Size]byte) bool {
	for i := range uint64(probes) {
		word, mask := probe(key, r.words(), i)
		if binary.LittleEndian.Uint64(r.filter[word*8:])&mask == 0 {
			return false
		}
	}
	return true
}

// pagesOf are the pages that may have a key, first to end-1: none where the filter does not know it. Where fences or filter
// cannot be read that is unknown, as where a page of records is damaged.
func (r *run) pagesOf(key *[sha256.Size]byte) (first, end int, err error) {
	err = mapped.Guard(r.mapped, func() {
		if !r.mayHave(key) {
			return
		}
		want := binary.BigEndian.Uint64(key[:])
		fence := func(page int) uint64 { return binary.LittleEndian.Uint64(r.fences[page*fenceSize:]) }
		// The key is on the page before the first fence that is not below it, or, should keys
		// share eight bytes, on one of those after.
		pages := int(r.pages())
		end = sort.Search(pages, func(page int) bool { return fence(page) >= want })
		first = max(end-1, 0)
		for end < pages && fence(end) == want {
			end++
		}
	})
	if err != nil {
		return 0, 0, r.damaged(err.Error())
	}
	return first, end, nil
}

func (r *run) find(key *[sha256.Size]byte) (id ID, ok bool, err error) {
	if r.count == 0 {
		return ID{}, false, nil
	}
	first, end, err := r.pagesOf(key)
	if err != nil || first == end {
		return ID{}, false, err
	}
	buf := make([]byte, pageSize)
	for page := first; page < end; page++ {
		records, err := r.page(int64(page), buf)
		if err != nil {
			return ID{}, false, err
		}
		for ; len(records) > 0; records = records[recordSize:] {
			if bytes.Equal(records[:sha256.Size], key[:]) {
				return decode(records), true, nil
			}
		}
	}
	return ID{}, false, nil
}

// page reads the records of one page.
func (r *run) page(page int64, buf []byte) ([]byte, error) {
	_, err := r.file.ReadAt(buf, pageSize*(1+page))
	if err != nil {
		return nil, r.unread(fmt.Sprintf("page %d", page), err)
	}
	if !sumFits(buf) {
		return nil, r.damaged(fmt.Sprintf("the checksum of page %d does not fit", page))
	}
	return buf[:min(perPage, int64(r.count)-page*perPage)*recordSize], nil
}

func decode(record []byte) (id ID) {
	copy(id.Key[:], record)
	id.Block, id.Tx, id.Code = binary.LittleEndian.Uint64(record[32:]), binary.LittleEndian.Uint32(record[40:]), record[44]
	return id
}

func encode(into []byte, id *ID) {
	copy(into, id.Key[:])
	binary.LittleEndian.PutUint64(into[32:], id.Block)
	binary.LittleEndian.PutUint32(into[40:], id.Tx)
	into[44] = id.Code
	clear(into[45:recordSize])
}

// source gives records in the order of their keys, then io.EOF.
type source func() (ID, error)

// fromMemory sorts ids.
func fromMemory(ids []ID) source {
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b ID) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return func() (ID, error) {
		if len(sorted) == 0 {
			return ID{}, io.EOF
		}
		id := sorted[0]
		sorted = sorted[1:]
		return id, nil
	}
}

// records reads a run from its beginning.
func (r *run) records() source {
	buf, next := make([]byte, pageSize), int64(0)
	var rest []byte
	return func() (ID, error) {
		if len(rest) == 0 {
			if next == r.pages() {
				return ID{}, io.EOF
			}
			var err error
			if rest, err = r.page(next, buf); err != nil {
				return ID{}, err
			}
			next++
		}
		id := decode(rest)
		rest = rest[recordSize:]
		return id, nil
	}
}

// merged gives the records of several runs.
func merged(runs []*run) source {
	type head struct {
		id   ID
		next source
	}
	var heads []*head
	var failed error
	for _, r := range runs {
		records := r.records()
		h := &head{next: func() (ID, error) {
			id, err := records()
			if errors.Is(err, ErrDamaged) {
				err = r.forsake(err)
			}
			return id, err
		}}
		if h.id, failed = h.next(); failed == nil {
			heads = append(heads, h)
		} else if failed != io.EOF {
			break
		}
	}
	return func() (ID, error) {
		if failed != nil && failed != io.EOF {
			return ID{}, failed
		}
		if len(heads) == 0 {
			return ID{}, io.EOF
		}
		least := 0
		for i := range heads {
			if bytes.Compare(heads[i].id.Key[:], heads[least].id.Key[:]) < 0 {
				least = i
			}
		}
		h := heads[least]
		id := h.id
		if h.id, failed = h.next(); failed == io.EOF {
			heads = slices.Delete(heads, least, least+1)
		}
		return id, nil
	}
}

// writeRun makes a run durable; src must give exactly s.count records.
func writeRun(dir string, s span, rest *durable.Rest, src source) error {
	return durable.Replace(dir, s.name(), rest, func(w *durable.Writer) error {
		page := make([]byte, pageSize)
		flush := func() error {
			binary.LittleEndian.PutUint32(page[pageSize-crc32.Size:], crc32.Checksum(page[:pageSize-crc32.Size], castagnoli))
			_, err := w.Write(page)
			clear(page)
			return err
		}
		copy(page, magic)
		at := page[len(magic):]
		for i, v := range []uint64{s.first, s.end, s.count} {
			binary.LittleEndian.PutUint64(at[8*i:], v)
		}
		copy(at[24:], s.hash[:])
		if err := flush(); err != nil {
			return err
		}
		tail := make([]byte, s.pages()*fenceSize, s.tail()+crc32.Size)
		filter := tail[s.pages()*fenceSize : s.tail()]
		tail = tail[:s.tail()]
		for n := range s.count {
			id, err := src()
			if err != nil {
				return fmt.Errorf("id %d of %d: %w", n, s.count, err)
			}
			slot := int(n % perPage)
			if slot == 0 {
				copy(tail[n/perPage*fenceSize:], binary.LittleEndian.AppendUint64(nil, binary.BigEndian.Uint64(id.Key[:])))
			}
			encode(page[slot*recordSize:], &id)
			for i := range uint64(probes) {
				word, mask := probe(&id.Key, s.words(), i)
				binary.LittleEndian.PutUint64(filter[word*8:], binary.LittleEndian.Uint64(filter[word*8:])|mask)
			}
			if slot == perPage-1 || n == s.count-1 {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		tail = binary.LittleEndian.AppendUint32(tail, crc32.Checksum(tail, castagnoli))
		_, err := w.Write(tail)
		return err
	})
}

// ReadFile reads all ids of one file in the chain's order, and what they stand for.
func ReadFile(path string) (first, end uint64, ids []ID, err error) {
	r, err := openRun(path)
	if err != nil {
		return 0, 0, nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for next := r.records(); ; {
		id, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, nil, err
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int {
		if a.Block != b.Block {
			return int(int64(a.Block) - int64(b.Block))
		}
		return int(int64(a.Tx) - int64(b.Tx))
	})
	return r.first, r.end, ids, nil
}
