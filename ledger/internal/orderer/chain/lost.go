package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/durable"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// lostFile in the folder of the blocks says what a cut at a damage took away, until the chain has it again.
const lostFile = "lost"

// lost is what is known of the blocks that were cut off at damages. Followers may have had them, so what comes again must be
// the same. It is on disk before anything is cut off.
type lost struct {
	// Hashes are those of headers, by block number.
	Hashes map[uint64][]byte
	// Newest is the newest block of Hashes, and Reached where it ends in the log.
	Newest  uint64
	Reached Applied
	// Runs are the transactions behind the blocks of each cut.
	Runs []*lostRun
}

// lostRun is transactions of a block that was open. They come again in their order, and among them others of Unknown bytes at
// most, which were in damaged frames.
type lostRun struct {
	Txs     [][]byte // hashes
	From    Position // where the first may be
	Unknown int64
}

// lostOf is what a damage takes away.
func lostOf(of blockfile.Lost, log Log) (*lost, error) {
	run := &lostRun{From: Position{of.Block, of.Begun}, Unknown: of.Unknown}
	l := &lost{Hashes: map[uint64][]byte{}}
	for _, seal := range of.Seals {
		header := seal.Header
		if header.Number < of.Block {
			continue
		}
		l.Hashes[header.Number] = protoutil.BlockHeaderHash(header)
		if header.Number > of.Block {
			l.Hashes[header.Number-1] = header.PreviousHash
		}
		_, raw, err := protoutil.OrdererMetadata(seal.Metadata)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", header.Number, err)
		}
		if l.Reached, _, err = log.Parse(raw, channelconfig.Membership{}); err != nil {
			return nil, fmt.Errorf("block %d: %w", header.Number, err)
		}
		l.Newest, run.From = header.Number, Position{Block: header.Number + 1}
	}
	for _, tx := range of.Txs {
		hash := sha256.Sum256(tx)
		run.Txs = append(run.Txs, hash[:])
	}
	if len(run.Txs) > 0 {
		l.Runs = append(l.Runs, run)
	}
	return l, nil
}

// add takes into account what an earlier cut took away and has not come again. What came was compared with it.
func (l *lost) add(before *lost) {
	maps.Copy(l.Hashes, before.Hashes)
	if before.Newest > l.Newest {
		l.Newest, l.Reached = before.Newest, before.Reached
	}
	var runs []*lostRun
	for _, run := range slices.Concat(before.Runs, l.Runs) {
		same := func(other *lostRun) bool { return reflect.DeepEqual(run, other) }
		if !slices.ContainsFunc(runs, same) { // a cut that has failed is made again
			runs = append(runs, run)
		}
	}
	l.Runs = runs
}

// note makes what a damage takes away durable.
func (l Log) note(dir string, of blockfile.Lost) error {
	missing, err := lostOf(of, l)
	if err != nil {
		return err
	}
	before, err := readLost(dir)
	if err != nil {
		return err
	}
	if before != nil {
		missing.add(before)
	}
	raw, err := json.Marshal(missing)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, lostFile), raw)
}

// cuts is blockfile.Options.Kept: what is to be cut off is noted first.
func (l Log) cuts(dir string) func(blockfile.Lost) bool {
	if l.Kept == nil {
		return nil
	}
	return func(of blockfile.Lost) bool {
		err := l.Kept(of)
		if err == nil {
			err = l.note(dir, of)
		}
		if err != nil {
			log.Warnf("%s: the block file is damaged from block [%d] on, and stays as it is: %s", dir, of.Block, err)
		}
		return err == nil
	}
}

// readLost gives nil where nothing is missing.
func readLost(dir string) (*lost, error) {
	path := filepath.Join(dir, lostFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what a damage has taken away: %w", err)
	}
	l := new(lost)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // another form's transactions would not be compared
	err = decoder.Decode(l)
	if _, end := decoder.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("something follows it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: delete it, and what comes again is not compared with what was there: %w", path, err)
	}
	return l, nil
}

// tx compares a transaction at a place with what was there.
func (l *lost) tx(at Position, tx []byte) error {
	if l == nil {
		return nil
	}
	for _, run := range l.Runs {
		if err := run.tx(at, tx); err != nil {
			return err
		}
	}
	return nil
}

func (r *lostRun) tx(at Position, tx []byte) error {
	if len(r.Txs) == 0 || at.Block < r.From.Block || at.Block == r.From.Block && at.Tx < r.From.Tx {
		return nil
	}
	if hash := sha256.Sum256(tx); bytes.Equal(hash[:], r.Txs[0]) {
		r.Txs = r.Txs[1:]
		return nil
	}
	if r.Unknown -= int64(len(tx)); r.Unknown < 0 {
		return fmt.Errorf("%w: %d transactions that this orderer had are not where they were", ErrOtherLog, len(r.Txs))
	}
	return nil
}

// missing is how many transactions have not come again, other than those of sealed blocks.
func (l *lost) missing() (txs int) {
	if l != nil {
		for _, run := range l.Runs {
			txs += len(run.Txs)
		}
	}
	return txs
}

// first is the first block that may have transactions which are compared; height, where no earlier one has.
func (l *lost) first(height uint64) uint64 {
	for _, run := range l.Runs {
		height = min(height, run.From.Block)
	}
	return height
}

// block compares a header with the one that there was.
func (l *lost) block(header *commonpb.BlockHeader) error {
	if l == nil {
		return nil
	}
	if hash := l.Hashes[header.Number]; hash != nil && !bytes.Equal(hash, protoutil.BlockHeaderHash(header)) {
		return fmt.Errorf("%w: this orderer had another block %d", ErrOtherLog, header.Number)
	}
	return nil
}

// recallLost reads what is missing, and takes into account what has come again before this start.
func (c *Chain) recallLost() error {
	var err error
	if c.lost, err = readLost(c.dir); err != nil || c.lost == nil {
		return err
	}
	for number := c.lost.first(c.number); number < c.number; number++ {
		block, err := c.store.Block(number)
		if err != nil {
			return err
		}
		for i, tx := range block.Data.GetData() {
			if err := c.lost.tx(Position{number, uint64(i)}, tx); err != nil {
				return err
			}
		}
	}
	return c.forgetLost()
}

// forgetLost ends the comparison when all is there again.
func (c *Chain) forgetLost() error {
	if c.lost == nil || c.number <= c.lost.Newest || c.lost.missing() > 0 {
		return nil
	}
	if err := c.store.Sync(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(c.dir, lostFile)); err != nil {
		return err
	}
	c.lost = nil
	log.Infof("[channel: %s] The blocks that a damage has taken away have come again, the same", c.id)
	return durable.SyncDir(c.dir)
}

// Reached is where the log has been in sealed blocks: not before Applied, and after it while blocks are missing that a damage
// has taken away, or while the entry that ended the last block has not come again. Of the applying goroutine.
func (c *Chain) Reached() Applied {
	at := c.applied
	if c.last != nil && c.last.last != nil {
		at = Applied{Index: at.Index + 1}
	}
	if c.lost != nil && c.lost.Reached.Index > at.Index {
		return c.lost.Reached
	}
	return at
}

// Missing is how many transactions behind sealed blocks the log has not brought again: those of the open block on disk, and
// those that a damage has taken away. One that came again before this start counts twice while others of its damage have
// not. Of the applying goroutine.
func (c *Chain) Missing() int { return max(0, len(c.tail)-c.count) + c.lost.missing() }
