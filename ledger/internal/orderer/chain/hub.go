package chain

import (
	"errors"
	"fmt"
	"sync"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

// How much of the recent order is kept in memory for followers. One that is
// further behind reads the ledger's files.
const (
	hubBytes  = 16 << 20
	hubBlocks = 4096
)

var (
	// errEvicted: the position is no longer in memory, read it from the ledger.
	errEvicted = errors.New("position is not in memory")
	// ErrPosition is what a position that this chain can never have wraps.
	ErrPosition = errors.New("no such position")
)

// hub hands the order to any number of followers as it grows.
type hub struct {
	mu          sync.Mutex
	wholeBlocks bool        // block mode: a transaction is shown only when its block is sealed
	hashes      bool        // followers are told running hashes
	blocks      []*hubBlock // consecutive numbers; the last one is open
	bytes       int
	changed     chan struct{} // closed and replaced when there is more to read
	sealed      chan struct{} // the same, for readers of whole blocks
}

type hubBlock struct {
	number uint64
	txs    [][]byte
	bytes  int
	before []byte   // hash of the header of the block before
	words  [][]byte // running hashes, one after each transaction; none where followers are told none
	seal   *streampb.Seal
}

func newHub(open uint64, before []byte) *hub {
	return &hub{
		blocks:  []*hubBlock{{number: open, before: before}},
		changed: make(chan struct{}), sealed: make(chan struct{}),
	}
}

// configure says what followers are shown from now on.
func (h *hub) configure(o *channelconfig.Orderer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wholeBlocks, h.hashes = o.Mode == channelconfig.Block, o.Trust().Hashes()
}

// add and seal do not wake followers: wake does, once for all that was added. A nil word is none.
func (h *hub) add(tx, word []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := h.blocks[len(h.blocks)-1]
	open.txs = append(open.txs, tx)
	if word != nil {
		open.words = append(open.words, word)
	}
	open.bytes += len(tx)
	h.bytes += len(tx)
}

func (h *hub) seal(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata, hash []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocks[len(h.blocks)-1].seal = &streampb.Seal{Header: header, Metadata: metadata}
	h.blocks = append(h.blocks, &hubBlock{number: header.Number + 1, before: hash})
	for len(h.blocks) > 1 && (h.bytes > hubBytes || len(h.blocks) > hubBlocks) {
		h.bytes -= h.blocks[0].bytes
		h.blocks[0] = nil // the slice's array lives on for a while
		h.blocks = h.blocks[1:]
	}
	close(h.sealed)
	h.sealed = make(chan struct{})
}

func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
}

// untilSealed gives a channel that closes at the next seal.
func (h *hub) untilSealed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sealed
}

// word is the running hash at a position; nil: it is not known here, or none are told. The caller holds the lock.
func (h *hub) word(at Position) *streampb.Word {
	i := at.Block - h.blocks[0].number
	if at.Block < h.blocks[0].number || i >= uint64(len(h.blocks)) {
		return nil
	}
	hash := h.blocks[i].before
	if at.Tx > 0 {
		if at.Tx > uint64(len(h.blocks[i].words)) {
			return nil
		}
		hash = h.blocks[i].words[at.Tx-1]
	}
	return &streampb.Word{Block: at.Block, Tx: at.Tx, Hash: hash}
}

// newest gives the newest position and the word there, when it comes after at; else a channel that closes when it is worth
// asking again.
func (h *hub) newest(at Position) (word *streampb.Word, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.blocks[len(h.blocks)-1]
	now := Position{last.number, uint64(len(last.txs))}
	if now.Block < at.Block || now.Block == at.Block && now.Tx <= at.Tx {
		return nil, h.changed
	}
	return h.word(now), h.changed
}

// read gives what follows at, about maxBytes at most, and the position after it;
// or, when there is nothing yet, a channel that closes when it is worth asking again.
func (h *hub) read(at Position, maxBytes int) (batch *streampb.Batch, next Position, more <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.Block < h.blocks[0].number {
		return nil, at, nil, errEvicted
	}
	var items []*streampb.Item
	for bytes := 0; bytes < maxBytes; {
		i := at.Block - h.blocks[0].number
		if i >= uint64(len(h.blocks)) {
			break // the follower has seen more than we: wait until we have it as well
		}
		b := h.blocks[i]
		if b.seal == nil && h.wholeBlocks {
			break
		}
		if at.Tx < uint64(len(b.txs)) {
			tx := b.txs[at.Tx]
			items = append(items, &streampb.Item{Kind: &streampb.Item_Tx{Tx: tx}})
			bytes += len(tx)
			at.Tx++
			continue
		}
		if b.seal == nil {
			break
		}
		if at.Tx > uint64(len(b.txs)) {
			return nil, at, nil, fmt.Errorf("%w: block %d has %d transactions, asked for number %d", ErrPosition, b.number, len(b.txs), at.Tx)
		}
		items = append(items, &streampb.Item{Kind: &streampb.Item_Seal{Seal: b.seal}})
		at = Position{Block: at.Block + 1}
	}
	batch = &streampb.Batch{Items: items}
	if h.hashes && len(items) > 0 {
		batch.Word = h.word(at)
	}
	return batch, at, h.changed, nil
}
