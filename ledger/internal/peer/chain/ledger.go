package chain

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/peerpb"
)

// Code is Fabric's verdict on a transaction.
type Code = validate.Code

const valid = peerpb.TxValidationCode_VALID

// ErrSeal says that a seal does not fit what was received before it.
var ErrSeal = errors.New("seal does not fit the chain")

// ErrDishonest says that an item is none that an orderer who keeps the rules sends: the item is not taken.
var ErrDishonest = errors.New("no orderer that keeps the rules sends this")

// Position is a place in the channel's order: transaction Tx of block Block.
type Position struct{ Block, Tx uint64 }

// Before reports whether p comes before o.
func (p Position) Before(o Position) bool {
	return p.Block < o.Block || (p.Block == o.Block && p.Tx < o.Tx)
}

func (p Position) compare(o Position) int {
	if c := cmp.Compare(p.Block, o.Block); c != 0 {
		return c
	}
	return cmp.Compare(p.Tx, o.Tx)
}

// ledger is what follows from the transactions so far: stage 2 and the replay at
// start extend it, one transaction after the other, in one goroutine.
type ledger struct {
	channelID string
	state     *statedb.DB
	index     *index
	bundle    atomic.Pointer[channelconfig.Bundle]

	next         Position
	indexed      uint64 // blocks whose ids the index has: a replay need not enter them
	transactions uint64 // so far
	config       uint64 // the block of the configuration in force
	previous     []byte // hash of the last sealed header
	word         []byte // running hash so far, where orderers say such
	data         *protoutil.DataHasher
	flags        []byte // verdicts of the open block
	malformed    error  // why no seal makes a block of the open one; nil: one may
	updates      hash.Hash
	commit       []byte // hash after the last sealed block

	last atomic.Pointer[mark] // after the last sealed block

	// audit makes the replay check the orderers' signatures as well.
	audit bool
}

func newLedger(channelID string) *ledger {
	return &ledger{
		channelID: channelID, state: statedb.New(), index: newIndex(), data: protoutil.NewDataHasher(), updates: sha256.New(),
	}
}

// decide gives the final verdict on the next transaction, which stage 1 judged as code.
func (l *ledger) decide(tx *validate.Tx, code Code) (Code, error) {
	if claims(tx, code) {
		if taken, err := l.index.has(tx.Key); taken || err != nil {
			return peerpb.TxValidationCode_DUPLICATE_TXID, err
		}
	}
	if code != valid {
		return code, nil
	}
	if tx.Type == commonpb.HeaderType_CONFIG {
		if _, err := l.bundle.Load().Next(tx.Message); err != nil {
			log.Warnf("[%s] configuration in block [%d] is ignored: %s", l.channelID, l.next.Block, err)
			return peerpb.TxValidationCode_INVALID_CONFIG_TRANSACTION, nil
		}
		return valid, nil
	}
	return tx.Set.Check(l.state), nil
}

// claims reports whether a transaction with this verdict takes its id.
func claims(tx *validate.Tx, code Code) bool {
	return tx.Type == commonpb.HeaderType_ENDORSER_TRANSACTION && validate.ClaimsID(code)
}

// record puts the next transaction with its verdict into effect.
func (l *ledger) record(tx *validate.Tx, code Code) error {
	hashes := l.hashes()
	if hashes {
		l.word = protoutil.RunningHash(l.word, tx.Raw)
	}
	if l.next.Block >= l.indexed && claims(tx, code) {
		l.index.claim(tx.Key, l.next, code)
	}
	if tx.Refused {
		l.index.refuse(tx.Key, l.next, code)
	}
	if !tx.WellFormed && l.next.Block > 0 && l.malformed == nil {
		l.malformed = fmt.Errorf("transaction %d is not well-formed", l.next.Tx)
	}
	_, _ = l.updates.Write([]byte{byte(code)}) // a hash never errs
	if code == valid {
		version := statedb.Version{Block: l.next.Block, Tx: l.next.Tx}
		if hashes {
			version.Hash = string(l.word)
		}
		if err := l.apply(tx, version); err != nil {
			return err
		}
	}
	l.data.Add(tx.Raw)
	l.flags = append(l.flags, byte(code))
	l.next.Tx++
	l.transactions++
	return nil
}

// hashes reports whether the open block's transactions have running hashes.
func (l *ledger) hashes() bool {
	bundle := l.bundle.Load()
	return bundle != nil && bundle.Orderer.Trust().Hashes()
}

func (l *ledger) apply(tx *validate.Tx, version statedb.Version) error {
	if tx.Type == commonpb.HeaderType_CONFIG {
		bundle, err := l.nextBundle(tx)
		if err != nil {
			return err
		}
		l.bundle.Store(bundle)
		l.config = l.next.Block
		return nil
	}
	if tx.Set == nil {
		return fmt.Errorf("transaction %d of block %d is marked valid but does not parse", l.next.Tx, l.next.Block)
	}
	l.state.Apply(version, tx.Set.Writes)
	for i := range tx.Set.Writes {
		w := &tx.Set.Writes[i]
		l.hashField([]byte(w.Namespace))
		l.hashField([]byte(w.Key))
		if w.Delete {
			_, _ = l.updates.Write([]byte{1})
			continue
		}
		_, _ = l.updates.Write([]byte{0})
		l.hashField(w.Value)
	}
	return nil
}

func (l *ledger) hashField(b []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(b)))
	_, _ = l.updates.Write(size[:])
	_, _ = l.updates.Write(b)
}

// nextBundle decodes a configuration transaction that was found valid.
func (l *ledger) nextBundle(tx *validate.Tx) (*channelconfig.Bundle, error) {
	bundle, err := channelconfig.FromMessage(tx.Message)
	if err != nil {
		return nil, err
	}
	if now := l.bundle.Load(); now != nil && bundle.Sequence != now.Sequence+1 {
		return nil, fmt.Errorf("configuration %d follows %d", bundle.Sequence, now.Sequence)
	}
	return bundle, nil
}

// seal closes the open block and returns the metadata to keep: the orderer's, the
// verdicts, and the commit hash.
func (l *ledger) seal(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) (*commonpb.BlockMetadata, error) {
	if header.GetNumber() != l.next.Block {
		return nil, fmt.Errorf("%w: block %d is sealed, block %d is open", ErrSeal, header.GetNumber(), l.next.Block)
	}
	if !bytes.Equal(header.GetPreviousHash(), l.previous) {
		return nil, fmt.Errorf("%w: block %d names %x as the hash of the block before, which is %x", ErrSeal, header.Number, header.PreviousHash, l.previous)
	}
	if l.malformed != nil {
		return nil, fmt.Errorf("%w: block %d: %w", ErrSeal, header.Number, l.malformed)
	}
	if l.next.Tx == 0 {
		return nil, fmt.Errorf("%w: block %d is empty", ErrSeal, header.Number)
	}
	if data := l.data.Sum(); !bytes.Equal(header.GetDataHash(), data) {
		return nil, fmt.Errorf("%w: block %d names data hash %x, its %d transactions have %x", ErrSeal, header.Number, header.DataHash, len(l.flags), data)
	}
	l.commit = l.updates.Sum(nil)
	kept, err := l.keptMetadata(metadata)
	if err != nil {
		return nil, err
	}
	l.previous = protoutil.BlockHeaderHash(header)
	l.word = l.previous
	if header.Number >= l.indexed {
		l.index.claimBlock(l.previous, header.Number)
	}
	l.next = Position{Block: header.Number + 1}
	l.data.Reset()
	l.flags, l.malformed = nil, nil
	// Each block's updates are hashed on top of the hash before.
	l.updates.Reset()
	_, _ = l.updates.Write(l.commit)
	return kept, nil
}

func (l *ledger) keptMetadata(metadata *commonpb.BlockMetadata) (*commonpb.BlockMetadata, error) {
	slots := make([][]byte, protoutil.MetadataSlots)
	copy(slots, metadata.GetMetadata())
	slots[commonpb.BlockMetadataIndex_TRANSACTIONS_FILTER] = l.flags
	hash, err := proto.Marshal(&commonpb.Metadata{Value: l.commit})
	if err != nil {
		return nil, err
	}
	slots[commonpb.BlockMetadataIndex_COMMIT_HASH] = hash
	return &commonpb.BlockMetadata{Metadata: slots}, nil
}
