package chain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/qioi/qioi/ledger/internal/blockfile"
	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/peer/txids"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/statedb"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// ErrNotFound says that a block or transaction is not in the chain (yet).
var ErrNotFound = blockfile.ErrNotFound

// Options tune a chain; the zero value is what a peer uses.
type Options struct {
	// Workers is how many goroutines check signatures (stage 1); 0: as many as there are processors.
	Workers int
	// Metrics has the chain's series; it may be nil.
	Metrics *Metrics
	// Files tunes the files of blocks.
	Files blockfile.Options
	// CheckpointEvery is how many transactions lie between two checkpoints; 0: 50,000, below 0: there are none.
	CheckpointEvery int
}

// Chain is one channel of a peer.
type Chain struct {
	ledger   *ledger
	store    *blockfile.Store
	saved    *checkpoints
	sealed   *mark    // after the last block that is sealed and durable; of stage 3
	open     []string // ids in the open block that clients may have been told of; of stage 3
	untold   []done   // transactions found on disk at the start, which nobody has been told of; until the pipeline is made
	tail     []string // their running hashes; until the pipeline is made
	feed     feed
	pipeline *pipeline
	metrics  *channelMetrics
	stopped  chan struct{}
}

// Open replays the ledger in dir, or begins one with the genesis block.
func Open(dir string, genesis *commonpb.Block, opts Options) (*Chain, error) {
	bundle, err := channelconfig.FromBlock(genesis)
	if err != nil {
		return nil, err
	}
	store, err := blockfile.Open(dir, opts.Files)
	if err != nil {
		return nil, err
	}
	c := &Chain{ledger: newLedger(bundle.ChannelID), store: store, stopped: make(chan struct{})}
	c.saved = newCheckpoints(dir, opts.CheckpointEvery, c.ledger.index)
	if err := c.openIDs(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := c.load(genesis); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.metrics = opts.Metrics.channel(c)
	c.pipeline = newPipeline(c, opts.Workers)
	return c, nil
}

func (c *Chain) openIDs() (err error) {
	l := c.ledger
	l.index.old, err = txids.Open(filepath.Join(c.store.Dir(), idsFolder), c.saved.rest,
		func(blocks uint64, hash []byte) error { _, err := lastOf(blocks, hash, c.store); return err },
		func(file string, why error) {
			log.Warnf("[%s] %s is not used, its ids are read again from the blocks: %s", l.channelID, file, why)
		})
	if err == nil {
		l.indexed = l.index.old.Blocks()
	}
	return err
}

func (c *Chain) load(genesis *commonpb.Block) error {
	l, id := c.ledger, c.ledger.channelID
	if torn := c.store.TornBytes(); torn > 0 {
		log.Warnf("[%s] %d bytes of an unfinished write were cut off the ledger's end; the orderers have them", id, torn)
	}
	if c.store.Height() == 0 {
		block, err := l.genesis(genesis)
		if err != nil {
			return err
		}
		if err := c.store.AppendBlock(block); err != nil {
			return err
		}
		if err := c.store.Sync(); err != nil {
			return err
		}
		c.sealed = l.mark()
	} else {
		if err := checkGenesis(c.store, genesis); err != nil {
			return err
		}
		if err := c.replay(); err != nil {
			return err
		}
	}
	c.feed.height = l.next.Block
	l.index.durable = l.next
	if l.last.Load().holds() {
		l.index.durable = Position{Block: l.next.Block}
	}
	return nil
}

func (c *Chain) replay() error {
	l, start := c.ledger, time.Now()
	c.saved.load(l, c.store)
	before := l.next.Block
	if err := l.replayIDs(c.store); err != nil {
		return err
	}
	if err := l.replayBlocks(c.store, c.store.Height(), nil); err != nil {
		return err
	}
	c.sealed = l.mark()
	tail := func(at Position, tx *validate.Tx, code Code) {
		c.tail = append(c.tail, string(l.word))
		if c.sealed.holds() {
			c.untold = append(c.untold, done{at: at, tx: tx, code: code, holds: true})
		} else {
			c.open = append(c.open, tx.ID)
		}
	}
	if err := l.replayTail(c.store, tail); err != nil {
		return err
	}
	log.Infof("[%s] Replayed %d block(s) and %d transaction(s) of the open one; ready at block [%d] after %s",
		l.channelID, l.next.Block-before, l.next.Tx, l.next.Block, time.Since(start).Round(time.Millisecond))
	return nil
}

// Run moves what Add and Seal bring through the pipeline until ctx ends (nil) or the
// chain cannot go on, because of the disk or of what the orderer sent (the reason).
func (c *Chain) Run(ctx context.Context) error {
	defer close(c.stopped)
	if err := c.pipeline.run(ctx); err != nil {
		return err
	}
	c.saved.stop(c.sealed)
	return nil
}

// Close releases the files; Run must have returned.
func (c *Chain) Close() error { return errors.Join(c.ledger.index.old.Close(), c.store.Close()) }

// Stopped closes when Run returns.
func (c *Chain) Stopped() <-chan struct{} { return c.stopped }

// ID is the channel's name.
func (c *Chain) ID() string { return c.ledger.channelID }

// Bundle is the configuration in force.
func (c *Chain) Bundle() *channelconfig.Bundle {
	if last := c.ledger.last.Load(); last.holds() {
		return last.bundle
	}
	return c.ledger.bundle.Load()
}

// Snapshot is the newest state, for the simulation of what is to be ordered. Where orderers may lie it may be taken back;
// versions show that then. In block mode it is that of the sealed blocks.
func (c *Chain) Snapshot() *statedb.Snapshot {
	if last := c.ledger.last.Load(); last.words == 0 {
		return last.state
	}
	return c.ledger.state.Snapshot()
}

// Position is what is to be received next. Position, Add and Seal belong to one goroutine.
func (c *Chain) Position() Position {
	c.pipeline.rejoin()
	return c.pipeline.position
}

// Rewound closes when what was received is taken back, but for what is vouched for; ask for it after Position. It is another
// one as soon as Position has gone back, which may be before the one before closes.
func (c *Chain) Rewound() <-chan struct{} { return c.pipeline.known.gone }

// Add receives the next transaction in order; it waits while the pipeline is full. An
// error is ctx's, ErrStopped or ErrRewound.
func (c *Chain) Add(ctx context.Context, raw []byte) error { return c.pipeline.addTx(ctx, raw) }

// Attest receives the word of the orderer that has sent what was received, for all of it.
func (c *Chain) Attest(ctx context.Context, orderer string, word Word) error {
	return c.pipeline.addWord(ctx, orderer, word)
}

// Distrust takes the open block back, unless enough orderers have vouched for all of it: one has not what was received, or
// sends what none does. ErrRewound says that it is done.
// Nothing is lost by that where clients are told of no transaction at one orderer's word.
func (c *Chain) Distrust(ctx context.Context, why error) error { return c.pipeline.distrust(ctx, why) }

// Seal receives the end of the open block.
func (c *Chain) Seal(ctx context.Context, header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) error {
	return c.pipeline.addSeal(ctx, header, metadata)
}

// Status waits until the transaction is durably committed, valid or not.
func (c *Chain) Status(ctx context.Context, txID string) (Status, error) {
	key, ok := validate.ParseTxID(txID)
	if !ok {
		return Status{}, fmt.Errorf("transaction id %q: 64 hexadecimal digits are accepted", txID)
	}
	s, err := c.ledger.index.wait(ctx, c.stopped, key)
	if err == nil && s.ofBlock() {
		return Status{}, fmt.Errorf("transaction id %q: it is the hash of block %d", txID, s.Position.Block)
	}
	return s, err
}

// Find looks a durable transaction up without waiting; ErrNotFound when there is none of that id. Another error says that
// the disk could not be read.
func (c *Chain) Find(txID string) (Status, error) {
	key, ok := validate.ParseTxID(txID)
	if !ok {
		return Status{}, ErrNotFound
	}
	s, ok, err := c.ledger.index.lookup(key)
	if err != nil {
		log.Errorf("[%s] transaction %s: %s", c.ID(), txID, err)
		return Status{}, err
	}
	if !ok || s.ofBlock() {
		return Status{}, ErrNotFound
	}
	return s, nil
}

// Exists reports whether the id is taken, durable or not.
func (c *Chain) Exists(key validate.TxKey) (bool, error) { return c.ledger.index.has(key) }

// Height is the number of blocks that are sealed and durable.
func (c *Chain) Height() uint64 { return c.feed.sealed() }

// Block reads a sealed, durable block.
func (c *Chain) Block(number uint64) (*commonpb.Block, error) {
	if number >= c.Height() {
		return nil, ErrNotFound
	}
	return c.store.Block(number)
}

// BlockByHash reads the sealed, durable block whose header has that hash.
func (c *Chain) BlockByHash(hash []byte) (*commonpb.Block, error) {
	if len(hash) != len(validate.TxKey{}) {
		return nil, ErrNotFound
	}
	s, ok, err := c.ledger.index.lookup(validate.TxKey(hash))
	if err != nil {
		return nil, err
	}
	if !ok || !s.ofBlock() {
		return nil, ErrNotFound
	}
	return c.Block(s.Position.Block)
}

// UntilChanged closes when Height rises; ask for it before asking for Height.
func (c *Chain) UntilChanged() <-chan struct{} { return c.feed.untilChanged() }
