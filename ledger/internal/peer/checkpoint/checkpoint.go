// Package checkpoint keeps what follows from a channel's chain up to some block (the
// state, a few hashes, refused transactions), so that a peer need not replay the chain from its beginning. The
// chain remains the truth: a checkpoint that is torn, damaged or of another chain is left
// aside, and at worst everything is replayed.
//
// A folder holds files state-NUMBER: a point of the chain and the state there, with a checksum;
// NUMBER is how many blocks it covers; the newest two are kept.
package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/statedb"
)

// ErrDamaged is what the reason wraps when a checkpoint's bytes are not what was written.
var ErrDamaged = errors.New("damaged")

const (
	prefix = "state-"
	kept   = 2
)

// Point is a place between two blocks of a chain, and what is known of it.
type Point struct {
	Channel      string
	Blocks       uint64 // how many are before it
	Hash         []byte // of the last one's header
	Commit       []byte // its commit hash
	Config       uint64 // the block of the configuration in force
	Transactions uint64
}

// Loaded is a checkpoint that was read back whole.
type Loaded struct {
	File  string
	Point Point
	State *statedb.DB
	// Refused are transactions before the point that do not count and whose senders may still ask for the verdict, the
	// oldest first.
	Refused []txids.ID
}

// Folder is where a channel's checkpoints are. One goroutine uses it.
type Folder struct {
	dir  string
	rest *durable.Rest // of writing
	good []string      // files that are known to be whole and of this chain, the oldest first
}

// Open prepares the folder, which is made at the first Save. rest is that of writing, or nil.
func Open(dir string, rest *durable.Rest) *Folder { return &Folder{dir: dir, rest: rest} }

// Newest reads the newest checkpoint that is whole and that fits: fits says why one does not.
// It returns nil when there is none; skipped is called with each that was left aside, and why.
func (f *Folder) Newest(fits func(Point) error, skipped func(file string, why error)) *Loaded {
	files, err := Files(f.dir)
	if err != nil {
		skipped(f.dir, err)
	}
	for _, file := range slices.Backward(files) {
		l, err := Load(file, fits)
		if err != nil {
			skipped(file, err)
			continue
		}
		f.good = []string{file}
		return l
	}
	return nil
}

// Save makes a checkpoint durable.
func (f *Folder) Save(p Point, state *statedb.Snapshot, refused []txids.ID) error {
	if err := durable.MakeDir(f.dir); err != nil {
		return err
	}
	name := prefix + fmt.Sprintf("%012d", p.Blocks)
	if err := durable.Replace(f.dir, name, f.rest, func(w *durable.Writer) error { return writeState(w, p, state, refused) }); err != nil {
		return err
	}
	f.good = append(f.good, filepath.Join(f.dir, name))
	return f.prune()
}

// prune removes all but the newest good ones: what is damaged or of another chain goes too.
func (f *Folder) prune() error {
	if len(f.good) > kept {
		f.good = f.good[len(f.good)-kept:]
	}
	files, err := Files(f.dir)
	for _, file := range files {
		if !slices.Contains(f.good, file) {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

// Files are the checkpoints in a folder, the oldest first.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var files []string
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if _, bad := strconv.ParseUint(digits, 10, 64); ok && bad == nil {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return files, err
}

// Load reads one checkpoint. Where fits (if given) refuses its point, the state is not read.
func Load(file string, fits func(Point) error) (*Loaded, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	body := len(raw) - sha256.Size
	former := bytes.HasPrefix(raw[:max(body, 0)], []byte(formerMagic))
	if !former && !bytes.HasPrefix(raw[:max(body, 0)], []byte(magic)) {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrDamaged, magic)
	}
	if sum := sha256.Sum256(raw[:body]); string(sum[:]) != string(raw[body:]) {
		return nil, fmt.Errorf("%w: its checksum does not fit", ErrDamaged)
	}
	in := reader{rest: raw[len(magic):body]}
	l := &Loaded{File: file, Point: in.point()}
	if in.failed {
		return nil, fmt.Errorf("%w: it does not parse", ErrDamaged)
	}
	if fits != nil {
		if err := fits(l.Point); err != nil {
			return nil, err
		}
	}
	l.State = in.state()
	if !former {
		l.Refused = in.refused(l.Point.Blocks)
	}
	if in.failed || len(in.rest) > 0 {
		return nil, fmt.Errorf("%w: it does not parse", ErrDamaged)
	}
	return l, nil
}
