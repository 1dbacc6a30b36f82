// Package txids keeps on disk which transaction ids a channel's chain has taken, where, and with
// which verdict, so that a peer's memory does not grow with its ledger. The chain remains the
// truth: what is missing here, or damaged, is made again from the blocks. The hashes of the blocks'
// headers, which are as long as an id, are found here as well (WholeBlock).
//
// Ids come in runs, one file each: all ids of some consecutive blocks, sorted. Four runs of about
// the same size become one, so that there are few of them. Each has a Bloom filter, two bytes an
// id, which is mapped: an id that was never taken costs no read, one that was costs one page.
package txids

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/qioi/qioi/ledger/internal/durable"
)

// What an error wraps by which a run is left aside.
var (
	ErrDamaged = errors.New("damaged")           // its bytes are not what was written
	ErrForeign = errors.New("not of this chain") // as fits says
)

const (
	prefix = "ids-"
	// fan is how many runs of about a size become one.
	fan = 4
	// largest is the number of ids from which a run stays as it is: making one must not take long.
	largest = 4 << 20
)

// WholeBlock stands for a transaction's number where the key is the hash of a block's header.
const WholeBlock = math.MaxUint32

// ID is a transaction id that is taken: a later transaction with it is a duplicate.
type ID struct {
	Key   [sha256.Size]byte
	Block uint64
	Tx    uint32 // or WholeBlock
	Code  uint8  // the verdict
}

// Store is a channel's ids. One goroutine adds; any number may look up.
type Store struct {
	dir  string
	rest *durable.Rest
	mu   sync.RWMutex
	// Consecutive, from block 0 on.
	runs []*run
}

// Open finds the runs in dir, which need not exist. fits says by ErrForeign that one is not of this chain: it is
// given how many blocks the run reaches up to and the hash of the last one's header. skipped is
// told what is left aside; that, and what is no longer needed, is removed. Any other error, such as for too many open files,
// says nothing about the run: Open returns it. rest spreads the writing of runs.
func Open(dir string, rest *durable.Rest, fits func(blocks uint64, hash []byte) error, skipped func(file string, why error)) (*Store, error) {
	s := &Store{dir: dir, rest: rest}
	paths, err := Files(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		r, err := openRun(path)
		if err == nil {
			if err = fits(r.end, r.hash[:]); err != nil {
				err = errors.Join(err, r.close())
			}
		}
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrForeign) {
			skipped(path, err)
			if err = os.Remove(path); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.runs = append(s.runs, r)
	}
	if err := s.arrange(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// arrange keeps the runs that follow on each other from block 0 on, of those that begin at the same block the longest.
func (s *Store) arrange() error {
	found, others := s.runs, []*run(nil)
	slices.SortFunc(found, func(a, b *run) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.end, a.end)) })
	s.runs = nil
	for _, r := range found {
		if r.first == s.Blocks() {
			s.runs = append(s.runs, r)
		} else {
			others = append(others, r)
		}
	}
	return drop(others)
}

// drop removes runs whose ids are in others, or that do not follow on any.
func drop(runs []*run) (err error) {
	for _, r := range runs {
		err = errors.Join(err, r.close())
		if !r.forsaken.Load() {
			err = errors.Join(err, os.Remove(r.path))
		}
	}
	return err
}

// Files are the files of ids in a folder.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, err
}

// Blocks is how many blocks' ids are here.
func (s *Store) Blocks() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[len(s.runs)-1].end
}

// Find looks an id up. An error says that a file cannot be read: whether the id is taken is not known then.
func (s *Store) Find(key [sha256.Size]byte) (ID, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range slices.Backward(s.runs) {
		id, ok, err := r.find(&key)
		if errors.Is(err, ErrDamaged) {
			err = r.forsake(err)
		}
		if ok || err != nil {
			return id, ok, err
		}
	}
	return ID{}, false, nil
}

// Add makes the ids of the next blocks durable, up to but without block end; hash is that of the
// header of the block before it. After an error it may be called again with these and more.
func (s *Store) Add(end uint64, hash []byte, ids []ID) error {
	sp := span{first: s.Blocks(), end: end, count: uint64(len(ids))}
	if end <= sp.first || copy(sp.hash[:], hash) != len(sp.hash) {
		return fmt.Errorf("%s: ids up to block %d and a hash of %d bytes: block %d and more, and %d bytes, are accepted",
			s.dir, end, len(hash), sp.first+1, len(sp.hash))
	}
	if err := durable.MakeDir(s.dir); err != nil {
		return err
	}
	return s.put(sp, fromMemory(ids), nil)
}

// put writes a run in the place of those that it is made of.
func (s *Store) put(sp span, src source, from []*run) error {
	if err := writeRun(s.dir, sp, s.rest, src); err != nil {
		return err
	}
	r, err := openRun(filepath.Join(s.dir, sp.name()))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.runs = append(slices.Clone(s.runs[:len(s.runs)-len(from)]), r)
	s.mu.Unlock() // from here on the old ones are not read
	return drop(from)
}

// Compact merges the newest runs where they are of about a size. Like Add it may be called again after an error.
func (s *Store) Compact() error {
	for {
		intact := s.intact()
		if len(intact) < fan {
			return nil
		}
		last := intact[len(intact)-fan:]
		sp := span{first: last[0].first, end: last[fan-1].end, hash: last[fan-1].hash}
		for _, r := range last {
			sp.count += r.count
		}
		if last[0].count >= fan*max(last[fan-1].count, 1) || sp.count > largest {
			return nil
		}
		if err := s.put(sp, merged(last), last); err != nil {
			return err
		}
	}
}

// intact are the runs after the last one that is known to be damaged: that stays as it is until the next start.
func (s *Store) intact() []*run {
	for i, r := range slices.Backward(s.runs) {
		if r.forsaken.Load() {
			return s.runs[i+1:]
		}
	}
	return s.runs
}

// Close releases the files.
func (s *Store) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		err = errors.Join(err, r.close())
	}
	s.runs = nil
	return err
}
