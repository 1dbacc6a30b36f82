package chain

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/checkpoint"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
)

// Report is what a ledger on disk holds. Hashes are hexadecimal. Of an orderer's ledger
// only the first part is known: orderers neither judge nor execute.
type Report struct {
	Channel      string `json:"channel"`
	Height       uint64 `json:"height"`
	Transactions uint64 `json:"transactions"` // those of the open block included
	OpenTxs      uint64 `json:"open_transactions"`
	LastHash     string `json:"last_hash"`
	TornBytes    int64  `json:"torn_bytes"` // of an unfinished write at the end

	CommitHash string            `json:"commit_hash,omitempty"`
	StateHash  string            `json:"state_hash,omitempty"`
	Keys       int               `json:"keys,omitempty"`
	Codes      map[string]uint64 `json:"codes,omitempty"` // transactions by verdict
	// Checkpoints are those of a peer; a damaged one is not used and does no harm.
	Checkpoints []CheckpointReport `json:"checkpoints,omitempty"`
	// IDs are the files of the ids that are taken, by the same rule.
	IDs []CheckpointReport `json:"ids,omitempty"`
	// Verdicts has a line for every transaction: block, number, verdict, id.
	Verdicts []string `json:"verdicts,omitempty"`
}

// CheckpointReport is a file that a peer makes of its chain: how many blocks it covers, or why it will not be used.
type CheckpointReport struct {
	File    string `json:"file"`
	Blocks  uint64 `json:"blocks,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// orderersBlocks is where an orderer keeps a channel's blocks, beside its log; a peer's are in the channel's folder itself.
const orderersBlocks = "blocks"

// Inspect reads and checks the ledger in a channel's folder without changing it; the node may be running. Damage is a
// *blockfile.CorruptError or says the block.
func Inspect(dir string, verdicts bool) (*Report, error) {
	if below := filepath.Join(dir, orderersBlocks); isFolder(below) {
		dir = below
	}
	store, err := blockfile.Open(dir, blockfile.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // nothing was written
	if store.Height() == 0 {
		return nil, fmt.Errorf("%s holds no blocks: the folder of a channel's ledger is accepted, DATA/channels/CHANNEL of a peer or an orderer", dir)
	}
	first, err := store.Block(0)
	if err != nil {
		return nil, err
	}
	bundle, err := channelconfig.FromBlock(first)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: block 0: %w", dir, err)
	}
	report := &Report{Channel: bundle.ChannelID, Height: store.Height(), TornBytes: store.TornBytes()}
	_, tail := store.OpenTail()
	report.OpenTxs = uint64(len(tail))
	if len(Flags(first)) == 0 {
		return report, report.readOrderer(store)
	}
	return report, report.readPeer(store, verdicts)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (r *Report) readPeer(store *blockfile.Store, verdicts bool) error {
	l := newLedger(r.Channel)
	l.audit = true
	r.Codes = map[string]uint64{}
	visit := func(at Position, tx *validate.Tx, code Code) {
		r.Transactions++
		r.Codes[code.String()]++
		if verdicts {
			r.Verdicts = append(r.Verdicts, fmt.Sprintf("%d %d %s %s", at.Block, at.Tx, code, tx.ID))
		}
	}
	if err := r.readCheckpoints(l, store, visit); err != nil {
		return err
	}
	if err := l.replayBlocks(store, store.Height(), visit); err != nil {
		return err
	}
	if err := l.replayTail(store, visit); err != nil {
		return err
	}
	if err := r.readIDs(l, store); err != nil {
		return err
	}
	snapshot := l.state.Snapshot()
	state := snapshot.Hash()
	r.LastHash, r.CommitHash = hex.EncodeToString(l.previous), hex.EncodeToString(l.commit)
	r.StateHash, r.Keys = hex.EncodeToString(state[:]), snapshot.Len()
	return nil
}

// readCheckpoints replays up to each checkpoint and compares: one that is whole and of this chain,
// yet says otherwise than the chain, is damage.
func (r *Report) readCheckpoints(l *ledger, store *blockfile.Store, visit visitor) error {
	files, err := checkpoint.Files(filepath.Join(store.Dir(), checkpointFolder))
	if err != nil {
		return err
	}
	for _, file := range files {
		saved, err := checkpoint.Load(file, func(p checkpoint.Point) error { return fits(p, r.Channel, store) })
		if errors.Is(err, fs.ErrNotExist) {
			continue // a running peer has replaced it
		}
		if err != nil {
			r.Checkpoints = append(r.Checkpoints, CheckpointReport{File: file, Problem: err.Error()})
			continue
		}
		if err := l.replayBlocks(store, saved.Point.Blocks, visit); err != nil {
			return err
		}
		if err := l.compare(saved); err != nil {
			return fmt.Errorf("checkpoint %s: %w", file, err)
		}
		r.Checkpoints = append(r.Checkpoints, CheckpointReport{File: file, Blocks: saved.Point.Blocks})
	}
	return nil
}

func (l *ledger) compare(saved *checkpoint.Loaded) error {
	now := l.mark()
	if !reflect.DeepEqual(now.Point, saved.Point) {
		return fmt.Errorf("it says %+v, the chain gives %+v", saved.Point, now.Point)
	}
	if got, want := saved.State.Snapshot().Hash(), now.state.Hash(); got != want {
		return fmt.Errorf("its state hash is %x, the chain gives %x", got, want)
	}
	return nil
}

// readIDs compares the files of ids with the chain; one that is damaged will not be used, and does no harm.
func (r *Report) readIDs(l *ledger, store *blockfile.Store) error {
	files, err := txids.Files(filepath.Join(store.Dir(), idsFolder))
	if err != nil {
		return err
	}
	for _, file := range files {
		first, end, ids, err := txids.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a running peer has merged it
		case err != nil:
			r.IDs = append(r.IDs, CheckpointReport{File: file, Problem: err.Error()})
		case end > l.next.Block: // a running peer has gone on
		default:
			taken := l.index.fresh[l.index.upTo(first):l.index.upTo(end)]
			if !slices.Equal(ids, taken) {
				return fmt.Errorf("%s: its %d ids of blocks %d to %d are not the %d of the chain", file, len(ids), first, end-1, len(taken))
			}
			r.IDs = append(r.IDs, CheckpointReport{File: file, Blocks: end - first})
		}
	}
	return nil
}

func (r *Report) readOrderer(store *blockfile.Store) error {
	var previous []byte
	for n := range store.Height() {
		block, err := store.Block(n)
		if err != nil {
			return err
		}
		if block.Header.GetNumber() != n || !bytes.Equal(block.Header.GetPreviousHash(), previous) {
			return fmt.Errorf("ledger %s: block %d does not fit the chain", store.Dir(), n)
		}
		if err := protoutil.CheckBlock(block); err != nil {
			return fmt.Errorf("ledger %s: %w", store.Dir(), err)
		}
		previous = protoutil.BlockHeaderHash(block.Header)
		r.Transactions += uint64(len(block.Data.Data))
	}
	r.Transactions += r.OpenTxs
	r.LastHash = hex.EncodeToString(previous)
	return nil
}
