package chain

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
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
	// Verdicts has a line for every transaction: block, number, verdict, id.
	Verdicts []string `json:"verdicts,omitempty"`
}

// Inspect reads and checks a ledger without changing it; the node may be running. Damage is a
// *blockfile.CorruptError or says the block.
func Inspect(dir string, verdicts bool) (*Report, error) {
	store, err := blockfile.Open(dir, blockfile.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // nothing was written
	if store.Height() == 0 {
		return nil, fmt.Errorf("%s holds no blocks: the folder of a channel's ledger is accepted, DATA/channels/CHANNEL of a peer, DATA/channels/CHANNEL/blocks of an orderer", dir)
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

func (r *Report) readPeer(store *blockfile.Store, verdicts bool) error {
	l := newLedger(r.Channel)
	l.audit = true
	r.Codes = map[string]uint64{}
	err := l.replay(store, func(at Position, tx *validate.Tx, code Code) {
		r.Transactions++
		r.Codes[code.String()]++
		if verdicts {
			r.Verdicts = append(r.Verdicts, fmt.Sprintf("%d %d %s %s", at.Block, at.Tx, code, tx.ID))
		}
	})
	if err != nil {
		return err
	}
	snapshot := l.state.Snapshot()
	state := snapshot.Hash()
	r.LastHash, r.CommitHash = hex.EncodeToString(l.previous), hex.EncodeToString(l.commit)
	r.StateHash, r.Keys = hex.EncodeToString(state[:]), snapshot.Len()
	return nil
}

func (r *Report) readOrderer(store *blockfile.Store) error {
	var previous []byte
	for n := range store.Height() {
		block, err := store.Block(n)
		if err != nil {
			return err
		}
		txs := block.GetData().GetData()
		if !linked(block.Header, previous, txs) {
			return fmt.Errorf("ledger %s: block %d does not fit the chain", store.Dir(), n)
		}
		previous = protoutil.BlockHeaderHash(block.Header)
		r.Transactions += uint64(len(txs))
	}
	r.Transactions += r.OpenTxs
	r.LastHash = hex.EncodeToString(previous)
	return nil
}

func linked(h *commonpb.BlockHeader, previous []byte, txs [][]byte) bool {
	return bytes.Equal(h.GetPreviousHash(), previous) && bytes.Equal(h.GetDataHash(), protoutil.DataHash(txs))
}
