package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// ID is a transaction id that is taken: a later transaction with it is a duplicate.
type ID struct {
	Key   [sha256.Size]byte
	Block uint64
	Tx    uint32
	Code  uint8 // the verdict
}

const (
	idBytes = 48 // key, block, number, verdict, three zeroes
	idsFile = "ids"
)

// ids is the file of transaction ids, as far as a checkpoint counts on it.
type ids struct {
	path  string
	count uint64
	sum   hash.Hash // over these
}

func newIDs(dir string) ids { return ids{path: filepath.Join(dir, idsFile), sum: sha256.New()} }

func (f *ids) resume(taken []ID) { f.keep(taken) }

// keep counts ids that are durable together with the state that needs them.
func (f *ids) keep(fresh []ID) {
	for i := range fresh {
		record := encodeID(&fresh[i])
		_, _ = f.sum.Write(record[:]) // a hash never errs
	}
	f.count += uint64(len(fresh))
}

// add writes ids behind those that count, durably, over whatever an unfinished attempt has
// left there, and gives the checksum of all.
func (f *ids) add(fresh []ID) ([]byte, error) {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	sum, err := cloneHash(f.sum)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	out := newSynced(file)
	if _, err := file.Seek(int64(f.count)*idBytes, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for i := range fresh {
		record := encodeID(&fresh[i])
		_, _ = sum.Write(record[:])
		out.write(record[:])
	}
	return sum.Sum(nil), errors.Join(out.close(), file.Close())
}

func cloneHash(h hash.Hash) (hash.Hash, error) {
	c, ok := h.(hash.Cloner)
	if !ok {
		return nil, errors.New("the hash cannot be copied")
	}
	return c.Clone()
}

func encodeID(id *ID) (record [idBytes]byte) {
	copy(record[:], id.Key[:])
	binary.LittleEndian.PutUint64(record[32:], id.Block)
	binary.LittleEndian.PutUint32(record[40:], id.Tx)
	record[44] = id.Code
	return record
}

// readIDs reads the first count ids and compares their checksum.
func readIDs(dir string, count uint64, want []byte) ([]ID, error) {
	path := filepath.Join(dir, idsFile)
	if count == 0 {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if uint64(info.Size())/idBytes < count {
		return nil, fmt.Errorf("%w: %s holds %d ids, %d are due", ErrDamaged, path, info.Size()/idBytes, count)
	}
	raw := make([]byte, count*idBytes)
	if _, err := io.ReadFull(file, raw); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], want) {
		return nil, fmt.Errorf("%w: the checksum of the first %d ids in %s does not fit", ErrDamaged, count, path)
	}
	out := make([]ID, count)
	for i := range out {
		record := raw[i*idBytes:]
		id := &out[i]
		copy(id.Key[:], record)
		id.Block, id.Tx, id.Code = binary.LittleEndian.Uint64(record[32:]), binary.LittleEndian.Uint32(record[40:]), record[44]
	}
	return out, nil
}
