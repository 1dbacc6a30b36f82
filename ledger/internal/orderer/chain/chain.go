// Package chain turns the log that the orderers have agreed on into a channel's
// chain of blocks. It is a state machine: the same log gives the same blocks on
// every orderer, but for each orderer's own signature. It keeps the blocks on
// disk and hands transactions and seals to followers.
package chain

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/orderer/cutter"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
	"github.com/qioi/qioi/ledger/pb/streampb"
)

var log = ops.Logger("orderer.chain")

// Position is a place in the channel's order: transaction Tx of block Block.
type Position struct{ Block, Tx uint64 }

// Chain is one channel's chain. One goroutine applies; any number may read.
type Chain struct {
	id     string
	dir    string
	signer protoutil.Signer
	log    Log
	store  *blockfile.Store
	bundle atomic.Pointer[channelconfig.Bundle]
	height atomic.Uint64 // sealed blocks
	grown  atomic.Uint64 // transactions since the start that were not on disk
	hub    *hub

	unreadable numbers // blocks that could not be read

	// Of the goroutine that applies:
	cutter     *cutter.Cutter
	hasher     *protoutil.DataHasher
	number     uint64 // of the open block
	count      int    // its transactions
	previous   []byte // hash of the last sealed header
	word       []byte // running hash of all so far, where followers are told it
	lastConfig uint64
	applied    Applied
	members    channelconfig.Membership
	tail       []blockfile.TailTx // of the open block, found on disk at start and not yet applied again
	last       *seenBlock         // until the log has brought it again; nil where it does not
	lost       *lost              // what a damage took away and has not come again; nil: nothing
	sealer     Sealer             // nil: this orderer's signature is all that a block needs
}

// Sealer gives a block its signatures, and may wait for those of others. The signatures cover header, the number of the
// last configuration's block and the consenter's metadata, as protoutil.SignBlock has it.
type Sealer interface {
	Seal(header *commonpb.BlockHeader, lastConfig uint64, consenter []byte) (*commonpb.BlockMetadata, error)
}

// SealBy has the blocks from now on signed by sealer alone. Call it before Apply.
func (c *Chain) SealBy(sealer Sealer) { c.sealer = sealer }

// Open reads the chain in dir or begins it with the genesis block.
func Open(dir string, genesis *commonpb.Block, signer protoutil.Signer, log Log) (*Chain, error) {
	store, err := blockfile.Open(dir, blockfile.Options{Kept: log.cuts(dir)})
	if err != nil {
		return nil, err
	}
	c := &Chain{dir: dir, store: store, signer: signer, log: log, hasher: protoutil.NewDataHasher()}
	c.tellTorn()
	if err := c.recover(genesis); err != nil {
		_ = store.Close() // the first error is the one to return
		return nil, fmt.Errorf("chain %s: %w", dir, err)
	}
	return c, nil
}

// tellTorn says what was cut off the block file's end.
func (c *Chain) tellTorn() {
	switch torn := c.store.Torn(); {
	case torn.Aside != "":
		log.Warnf("%s: %d damaged bytes from offset %d on were cut off, and come again; %s is a copy. %d blocks are left",
			torn.File, torn.Bytes, torn.Offset, torn.Aside, c.store.Height())
	case torn.Bytes > 0:
		log.Warnf("%s: %d bytes of an unfinished write were cut off from offset %d on. %d blocks are left",
			torn.File, torn.Bytes, torn.Offset, c.store.Height())
	}
}

func (c *Chain) recover(genesis *commonpb.Block) error {
	if c.store.Height() == 0 {
		if err := c.store.AppendBlock(genesis); err != nil {
			return err
		}
		if err := c.store.Sync(); err != nil {
			return err
		}
	}
	first, err := c.store.Block(0)
	if err != nil {
		return err
	}
	if !bytes.Equal(protoutil.BlockHeaderHash(first.Header), protoutil.BlockHeaderHash(genesis.Header)) {
		return fmt.Errorf("block 0 is not the channel's genesis block")
	}
	last, err := c.store.Block(c.store.Height() - 1)
	if err != nil {
		return err
	}
	lastConfig, consenter, err := protoutil.OrdererMetadata(last.Metadata)
	if err != nil {
		return fmt.Errorf("block %d: %w", last.Header.Number, err)
	}
	config, err := c.store.Block(lastConfig)
	if err != nil {
		return err
	}
	bundle, err := channelconfig.FromBlock(config)
	if err != nil {
		return err
	}
	c.configure(bundle)
	c.id = bundle.ChannelID
	c.members = channelconfig.FirstMembership(bundle.Orderer.Consenters)
	if last.Header.Number > 0 {
		if c.applied, c.members, err = c.log.Parse(consenter, c.members); err != nil {
			return fmt.Errorf("block %d: %w", last.Header.Number, err)
		}
	}
	if c.log.External {
		if c.last, err = c.seeAgain(last); err != nil {
			return err
		}
	}
	if len(c.members.IDs) != len(bundle.Orderer.Consenters) {
		return fmt.Errorf("block %d: %d ids of %d consenters", last.Header.Number, len(c.members.IDs), len(bundle.Orderer.Consenters))
	}
	c.resumeAt(last, lastConfig)
	if err := c.recallLost(); err != nil {
		return err
	}
	if open, tail := c.store.OpenTail(); len(tail) > 0 && open == c.number {
		c.tail = tail
	}
	c.hub = newHub(c.number, c.previous)
	c.hub.configure(&bundle.Orderer)
	c.word = c.previous
	return nil
}

// resumeAt continues after a sealed block.
func (c *Chain) resumeAt(last *commonpb.Block, lastConfig uint64) {
	c.lastConfig = lastConfig
	c.number, c.count = last.Header.Number+1, 0
	c.previous = protoutil.BlockHeaderHash(last.Header)
	c.hasher.Reset()
	c.height.Store(c.number)
}

func (c *Chain) configure(b *channelconfig.Bundle) {
	c.cutter = cutter.For(&b.Orderer)
	if c.hub != nil {
		c.hub.configure(&b.Orderer)
	}
	c.bundle.Store(b)
}

// Bundle is the configuration in force.
func (c *Chain) Bundle() *channelconfig.Bundle { return c.bundle.Load() }

// Height is the number of sealed blocks.
func (c *Chain) Height() uint64 { return c.height.Load() }

// Grown is the number of transactions that the chain has got since the start, by the log or by Import.
func (c *Chain) Grown() uint64 { return c.grown.Load() }

// Applied is where the last sealed block ends in the log. Of the applying goroutine.
func (c *Chain) Applied() Applied { return c.applied }

// Members are the ids of the configuration's consenters. Of the applying goroutine.
func (c *Chain) Members() channelconfig.Membership { return c.members }

// Open is the number of the open block and how many transactions it has. Of the applying goroutine.
func (c *Chain) Open() (number uint64, txs int) { return c.number, c.count }

// mostUnreadable is how many blocks that cannot be read are told of.
const mostUnreadable = 1000

// Block reads a sealed block. One that cannot be read is told of once: whoever asks may be elsewhere, and this is where its
// file is.
func (c *Chain) Block(number uint64) (*commonpb.Block, error) {
	block, err := c.store.Block(number)
	if err != nil && !errors.Is(err, blockfile.ErrNotFound) && !errors.Is(err, os.ErrClosed) && c.unreadable.add(number) {
		log.Errorf("[channel: %s] block [%d] cannot be read: %s", c.id, number, err)
	}
	return block, err
}

// numbers are those of some blocks. Any goroutine may add one.
type numbers struct {
	mu  sync.Mutex
	all map[uint64]bool
}

// add reports whether a number is new. When there are mostUnreadable, none is.
func (n *numbers) add(number uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[number] || len(n.all) == mostUnreadable {
		return false
	}
	if n.all == nil {
		n.all = map[uint64]bool{}
	}
	n.all[number] = true
	return true
}

// UntilSealed gives a channel that closes at the next seal; ask for it before Height.
func (c *Chain) UntilSealed() <-chan struct{} { return c.hub.untilSealed() }

// Sync makes everything applied so far durable in the ledger's own files; until
// then only the consensus log is. It may run beside Apply.
func (c *Chain) Sync() error { return c.store.Sync() }

// Close releases the files.
func (c *Chain) Close() error { return c.store.Close() }

// Apply puts committed log entries into the chain, which follow each other from index
// first on. What is in sealed blocks already, as after a restart, is skipped. Afterwards
// followers are told.
func (c *Chain) Apply(first uint64, entries ...*streampb.LogEntry) error {
	defer c.hub.wake()
	for i, entry := range entries {
		if err := c.apply(first+uint64(i), entry); err != nil {
			return err
		}
	}
	return nil
}

func (c *Chain) apply(index uint64, entry *streampb.LogEntry) error {
	if index < c.applied.Index {
		return c.last.compare(index, entry)
	}
	if err := c.last.complete(index, entry); err != nil {
		return err
	}
	c.last = nil
	skip := 0
	if index == c.applied.Index {
		skip = int(c.applied.Txs)
	}
	for i, tx := range entry.Txs {
		if i < skip {
			continue
		}
		if why := c.log.leftOut(c.Bundle(), entry, tx); why != nil {
			log.Warnf("[channel: %s] what entry %d brings is left out of block [%d]: %s", c.id, index, c.number, why)
			continue
		}
		if err := c.applyTx(tx, Applied{Index: index, Txs: uint32(i)}); err != nil {
			return fmt.Errorf("channel %s, block %d: %w", c.id, c.number, err)
		}
	}
	if entry.Cut && c.count > 0 && (entry.CutBlock == 0 || entry.CutBlock == c.number) {
		c.cutter.Cut()
		return c.sealBlock(Applied{Index: index, Txs: uint32(len(entry.Txs))})
	}
	return nil
}

// applyTx appends a transaction; before is the log's place just before it.
func (c *Chain) applyTx(tx []byte, before Applied) error {
	config := protoutil.HeaderType(tx) == int32(commonpb.HeaderType_CONFIG)
	cutBefore, cutAfter := c.cutter.Add(len(tx), config)
	if cutBefore {
		if err := c.sealBlock(before); err != nil {
			return err
		}
	}
	if err := c.appendTx(tx); err != nil {
		return err
	}
	if !cutAfter {
		return nil
	}
	if config {
		return c.sealConfig(tx, Applied{Index: before.Index, Txs: before.Txs + 1})
	}
	return c.sealBlock(Applied{Index: before.Index, Txs: before.Txs + 1})
}

func (c *Chain) appendTx(tx []byte) error {
	if err := c.lost.tx(Position{c.number, uint64(c.count)}, tx); err != nil {
		return err
	}
	if c.count < len(c.tail) {
		// A restart: the ledger has this transaction already, and must have the same.
		if !bytes.Equal(c.tail[c.count].Data, tx) {
			return fmt.Errorf("%w: transaction %d on disk is another one", ErrOtherLog, c.count)
		}
	} else {
		if err := c.store.AppendTx(c.number, uint64(c.count), tx, 0); err != nil {
			return err
		}
		c.grown.Add(1)
	}
	c.hasher.Add(tx)
	c.count++
	if c.Bundle().Orderer.Trust().Hashes() {
		c.word = protoutil.RunningHash(c.word, tx)
		c.hub.add(tx, c.word)
	} else {
		c.hub.add(tx, nil)
	}
	return nil
}

// sealConfig seals a block of its own for a configuration and puts it into force. That block already names
// the new consenters, as Fabric's does. A configuration that does not follow from the one in force stays in the chain
// without effect, on every orderer and peer: for example the second of two updates of one configuration.
func (c *Chain) sealConfig(tx []byte, at Applied) error {
	bundle, members, _, err := c.Next(tx)
	if err != nil {
		log.Warnf("[channel: %s] configuration in block [%d] is ignored: %s", c.id, c.number, err)
		return c.sealBlock(at)
	}
	c.lastConfig, c.members = c.number, members
	if err := c.sealBlock(at); err != nil {
		return err
	}
	c.configure(bundle)
	return nil
}

// Next is what a configuration transaction makes of the configuration and the consenters. Of the applying goroutine.
func (c *Chain) Next(tx []byte) (*channelconfig.Bundle, channelconfig.Membership, channelconfig.Change, error) {
	msg, err := protoutil.ParseEnvelope(tx)
	if err != nil {
		return nil, c.members, channelconfig.Change{}, err
	}
	now := c.Bundle()
	next, err := now.Next(msg)
	if err != nil {
		return nil, c.members, channelconfig.Change{}, err
	}
	members, change, err := c.members.Become(&now.Orderer, &next.Orderer)
	return next, members, change, err
}

// sealBlock ends the open block with a header and its signatures.
func (c *Chain) sealBlock(at Applied) error {
	if c.count < len(c.tail) {
		return fmt.Errorf("block %d on disk has more transactions than the log gives it", c.number)
	}
	header := &commonpb.BlockHeader{Number: c.number, PreviousHash: c.previous, DataHash: c.hasher.Sum()}
	consenter, err := c.log.Marshal(at, c.members)
	if err != nil {
		return err
	}
	if err := c.lost.block(header); err != nil {
		return err
	}
	metadata, err := c.sign(header, consenter)
	if err != nil {
		return err
	}
	if err := c.store.AppendSeal(header, metadata); err != nil {
		return err
	}
	c.sealed(header, metadata, at)
	return c.forgetLost()
}

func (c *Chain) sign(header *commonpb.BlockHeader, consenter []byte) (*commonpb.BlockMetadata, error) {
	if c.sealer == nil {
		return protoutil.SignBlock(c.signer, header, c.lastConfig, consenter)
	}
	c.hub.wake() // followers need not wait for the signatures
	return c.sealer.Seal(header, c.lastConfig, consenter)
}

func (c *Chain) sealed(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata, at Applied) {
	c.applied = at
	c.previous = protoutil.BlockHeaderHash(header)
	c.word = c.previous
	c.number++
	c.count, c.tail = 0, nil
	c.hasher.Reset()
	c.height.Store(c.number)
	c.hub.seal(header, metadata, c.previous)
}
