package chain

import (
	"bytes"
	"fmt"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/checkpoint"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// mark is the ledger as it stands between two blocks: what a checkpoint is made of.
type mark struct {
	checkpoint.Point
	state  *statedb.Snapshot
	bundle *channelconfig.Bundle
	// words is by how many orderers' words clients are told of what follows before its block is sealed
	// (channelconfig.Trust).
	words int
}

// holds says that what follows is not told as soon as it is durable.
func (m *mark) holds() bool { return m.words != 1 }

// mark remembers where the ledger is; no block may be open.
func (l *ledger) mark() *mark {
	bundle := l.bundle.Load()
	last := &mark{
		Point: checkpoint.Point{
			Channel: l.channelID, Blocks: l.next.Block, Hash: l.previous, Commit: l.commit,
			Config: l.config, Transactions: l.transactions,
		},
		state: l.state.Snapshot(), bundle: bundle, words: bundle.Orderer.Trust().Words,
	}
	l.last.Store(last)
	return last
}

// rewind takes back all that came after the last sealed block.
func (l *ledger) rewind() {
	last := l.last.Load()
	l.state.Reset(last.state)
	l.index.rewind(last.Blocks)
	l.resume(last.Point, last.bundle)
}

// resume makes the ledger stand at a point; state and index are the caller's.
func (l *ledger) resume(p checkpoint.Point, bundle *channelconfig.Bundle) {
	l.bundle.Store(bundle)
	l.next = Position{Block: p.Blocks}
	l.previous, l.commit, l.config, l.transactions = p.Hash, p.Commit, p.Config, p.Transactions
	l.word = l.previous
	l.data.Reset()
	l.flags, l.malformed = nil, nil
	l.updates.Reset()
	_, _ = l.updates.Write(l.commit) // a hash never errs
}

// fits says why a checkpoint is not one of this chain.
func fits(p checkpoint.Point, channelID string, store *blockfile.Store) error {
	if p.Channel != channelID {
		return fmt.Errorf("it is one of channel %s", p.Channel)
	}
	last, err := lastOf(p.Blocks, p.Hash, store)
	if err != nil {
		return err
	}
	if commit := CommitHash(last); !bytes.Equal(commit, p.Commit) {
		return fmt.Errorf("it says that block %d has commit hash %x, which is %x", p.Blocks-1, p.Commit, commit)
	}
	return nil
}

// lastOf reads the last of that many blocks. It says by txids.ErrForeign that they are not this chain's.
func lastOf(blocks uint64, hash []byte, store *blockfile.Store) (*commonpb.Block, error) {
	if blocks == 0 || blocks > store.Height() {
		return nil, fmt.Errorf("%w: it covers %d blocks, the chain has %d", txids.ErrForeign, blocks, store.Height())
	}
	last, err := store.Block(blocks - 1)
	if err != nil {
		return nil, err
	}
	if is := protoutil.BlockHeaderHash(last.Header); !bytes.Equal(is, hash) {
		return nil, fmt.Errorf("%w: it says that block %d has hash %x, which is %x", txids.ErrForeign, blocks-1, hash, is)
	}
	return last, nil
}

// configuration reads the one that was in force at a point.
func configuration(p checkpoint.Point, store *blockfile.Store) (*channelconfig.Bundle, error) {
	block, err := store.Block(p.Config)
	if err != nil {
		return nil, err
	}
	bundle, err := channelconfig.FromBlock(block)
	if err != nil {
		return nil, fmt.Errorf("configuration in block %d: %w", p.Config, err)
	}
	return bundle, nil
}
