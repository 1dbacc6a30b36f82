package chain

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// visitor sees every transaction of a replay; it may be nil.
type visitor func(Position, *validate.Tx, Code)

// replayBlocks rebuilds what follows from the files, from where the ledger stands until it has
// height blocks. Verdicts were written with the transactions, so no signature is checked again but those of refused ones
// (validate.Tx.Refused); hashes are.
func (l *ledger) replayBlocks(store *blockfile.Store, height uint64, visit visitor) error {
	for it := store.Iterator(l.next.Block); l.next.Block < height; {
		block, err := it.Next()
		if err != nil {
			return err
		}
		if err := l.replayBlock(block, visit); err != nil {
			return fmt.Errorf("ledger %s: block %d: %w", store.Dir(), block.Header.GetNumber(), err)
		}
		if err := l.spillIfMany(); err != nil {
			return err
		}
	}
	return nil
}

// spillIfMany keeps the memory of a long replay bounded.
func (l *ledger) spillIfMany() error {
	if l.index.old == nil || l.index.inMemory() < spillEvery {
		return nil
	}
	return l.index.spill(l.next.Block, l.previous)
}

// replayIDs enters the ids of blocks whose state is known already, up to where the ledger stands:
// those that the index has lost.
func (l *ledger) replayIDs(store *blockfile.Store) error {
	if l.indexed >= l.next.Block {
		return nil
	}
	log.Warnf("[%s] the ids of the transactions in blocks [%d] to [%d] are read again", l.channelID, l.indexed, l.next.Block-1)
	for it := store.Iterator(l.indexed); l.indexed < l.next.Block; l.indexed++ {
		block, err := it.Next()
		if err != nil {
			return err
		}
		flags := Flags(block)
		for i, raw := range block.GetData().GetData() {
			if i >= len(flags) {
				return fmt.Errorf("ledger %s: block %d: %d validation flags", store.Dir(), l.indexed, len(flags))
			}
			tx, _ := validate.Parse(raw, l.channelID)
			if code := Code(flags[i]); claims(tx, code) {
				l.index.claim(tx.Key, Position{l.indexed, uint64(i)}, code)
			}
		}
		hash := protoutil.BlockHeaderHash(block.Header)
		l.index.claimBlock(hash, l.indexed)
		if l.index.inMemory() >= spillEvery {
			if err := l.index.spill(l.indexed+1, hash); err != nil {
				return err
			}
		}
	}
	return nil
}

// replayTail goes on with the open block.
func (l *ledger) replayTail(store *blockfile.Store, visit visitor) error {
	number, tail := store.OpenTail()
	for i, t := range tail {
		if err := l.replayTx(t.Data, Code(t.Flag), visit); err != nil {
			return fmt.Errorf("ledger %s: open block %d, transaction %d: %w", store.Dir(), number, i, err)
		}
	}
	return nil
}

func (l *ledger) replayBlock(block *commonpb.Block, visit visitor) error {
	txs := block.GetData().GetData()
	flags := Flags(block)
	if len(flags) != len(txs) {
		return fmt.Errorf("%d validation flags for %d transactions", len(flags), len(txs))
	}
	if bundle := l.bundle.Load(); l.audit && bundle != nil { // block 0 has no signature
		if err := bundle.VerifySeal(block.Header, block.Metadata); err != nil {
			return err
		}
	}
	for i, raw := range txs {
		if err := l.replayTx(raw, Code(flags[i]), visit); err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
	}
	if _, err := l.seal(block.Header, block.Metadata); err != nil {
		return err
	}
	if stored := CommitHash(block); !bytes.Equal(stored, l.commit) {
		return fmt.Errorf("commit hash %x was written, replay gives %x", stored, l.commit)
	}
	return nil
}

func (l *ledger) replayTx(raw []byte, code Code, visit visitor) error {
	tx, _ := validate.Parse(raw, l.channelID)
	if code == peerpb.TxValidationCode_BAD_CREATOR_SIGNATURE {
		tx.FindRefused()
	}
	at := l.next
	if err := l.record(tx, code); err != nil {
		return err
	}
	if visit != nil {
		visit(at, tx, code)
	}
	return nil
}

// genesis gives block 0 as it is kept: valid by definition, every node has it from its operator.
func (l *ledger) genesis(block *commonpb.Block) (*commonpb.Block, error) {
	if len(block.GetData().GetData()) != 1 {
		return nil, fmt.Errorf("genesis block of %s: one transaction is accepted", l.channelID)
	}
	tx, _ := validate.Parse(block.Data.Data[0], l.channelID)
	if tx.Message == nil {
		return nil, fmt.Errorf("genesis block of %s does not parse", l.channelID)
	}
	if err := l.record(tx, valid); err != nil {
		return nil, err
	}
	metadata, err := l.seal(block.Header, block.Metadata)
	if err != nil {
		return nil, err
	}
	return &commonpb.Block{Header: block.Header, Data: block.Data, Metadata: metadata}, nil
}

func slot(block *commonpb.Block, i commonpb.BlockMetadataIndex) []byte {
	slots := block.GetMetadata().GetMetadata()
	if int(i) >= len(slots) {
		return nil
	}
	return slots[i]
}

// Flags are the verdicts on a kept block's transactions, a byte each.
func Flags(block *commonpb.Block) []byte {
	return slot(block, commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER)
}

// CommitHash is a kept block's commit hash; nil when there is none.
func CommitHash(block *commonpb.Block) []byte {
	var m commonpb.Metadata
	if proto.Unmarshal(slot(block, commonpb.BlockMetadataIndex_COMMIT_HASH), &m) != nil {
		return nil
	}
	return m.Value
}

func checkGenesis(store *blockfile.Store, genesis *commonpb.Block) error {
	first, err := store.Block(0)
	if err != nil {
		return err
	}
	if !bytes.Equal(protoutil.BlockHeaderHash(first.Header), protoutil.BlockHeaderHash(genesis.Header)) {
		return fmt.Errorf("ledger %s: block 0 is not the channel's genesis block: it belongs to another network", store.Dir())
	}
	return nil
}
