package chain

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/ops"
	"github.com/qioi/qioi/ledger/internal/peer/validate"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// Bounds of the pipeline: what waits in it, as items and as bytes.
const (
	queueItems = 1024
	queueBytes = 64 << 20
	// maxSeal bounds a seal: header, signatures and what else the orderers' metadata hold, of which no signature covers all.
	maxSeal = 1 << 20
	// groupItems is the most that one fsync covers.
	groupItems = 1024
)

// The stages, as metrics name them.
const (
	stageVerify = iota // signatures and policies: all workers together
	stageCommit        // conflicts and state
	stageFlush         // disk
	stages
)

// job is an item on its way through stages 1 and 2. The first to hold the lock, a worker
// or stage 2 itself, does the checking: the head of the queue never waits for a worker to wake up.
type job struct {
	mu      sync.Mutex
	checked bool

	raw      []byte // a transaction, or
	header   *commonpb.BlockHeader
	metadata *commonpb.BlockMetadata // a seal, or
	distrust error                   // why the open block is to be taken back, or
	word     *Word                   // that of the orderer by, for all before
	by       string

	base    *base                 // that it follows
	bundle  *channelconfig.Bundle // the configuration in force there
	bounds  bounds                // of a transaction: those of its block after it
	weight  int64
	arrived time.Time
	applied chan struct{} // closed after stage 2; nil where nothing waits for it

	tx   *validate.Tx
	code Code
	err  error // of a seal's signature
}

func (j *job) check() {
	j.checked = true
	if j.distrust != nil || j.word != nil {
		return
	}
	if j.header != nil {
		j.err = j.bundle.VerifySeal(j.header, j.metadata)
		return
	}
	j.tx, j.code = validate.Check(j.raw, j.bundle)
}

// done is an item on its way through stage 3.
type done struct {
	at       Position
	tx       *validate.Tx
	code     Code
	header   *commonpb.BlockHeader
	metadata *commonpb.BlockMetadata
	distrust error // why the open block is taken back: it is neither a transaction nor a seal then
	run      *base // that it belongs to
	holds    bool  // a transaction that nobody is told of before its block is sealed, or enough orderers have vouched for it
	weight   int64

	arrived, recorded time.Time // of a transaction: at the pipeline, in the state

	mark              *mark         // of a seal: the ledger after it
	validation, state time.Duration // of a seal: spent on its block in stage 2
}

// pipeline moves items from the follower to the disk.
type pipeline struct {
	chain   *Chain
	workers int
	jobs    chan *job // all, in order
	help    chan *job // those that a worker may check ahead
	results chan done
	bytes   *semaphore.Weighted
	busy    [stages]ops.Saturation

	base  atomic.Pointer[base]
	words *words

	// Of stage 2, for the open block:
	reached           bounds
	validation, state time.Duration // spent on it

	// Of stage 3:
	held    []done           // on disk, and not to be told yet
	keys    []validate.TxKey // scratch
	storage time.Duration    // of writing the block whose seal is told next

	// Of the goroutine that receives:
	known       *base
	position    Position
	bundle      *channelconfig.Bundle
	blockBundle *channelconfig.Bundle // in force when the open block began: its seal is checked by it
	bounds      bounds
	config      <-chan struct{} // closes when the configuration that came last is applied; nil: bundle is that one
}

func newPipeline(c *Chain, workers int) *pipeline {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	p := &pipeline{
		chain: c, workers: workers,
		jobs: make(chan *job, queueItems), help: make(chan *job, queueItems), results: make(chan done, queueItems),
		bytes: semaphore.NewWeighted(queueBytes),
	}
	// A block that was open when the peer stopped began under the configuration of the last seal.
	p.reached = newBounds(c.ledger.last.Load().bundle)
	_, tail := c.store.OpenTail()
	for _, tx := range tail {
		p.reached, _ = p.reached.add(len(tx.Data), isConfig(protoutil.HeaderType(tx.Data)))
	}
	p.base.Store(p.here())
	p.rejoin()
	p.words = newWords(p.known, c.ledger.last.Load(), c.tail)
	for _, d := range c.untold {
		d.run = p.known
		p.held = append(p.held, d)
	}
	c.untold, c.tail = nil, nil
	return p
}

// run owns the pipeline's goroutines; it returns the first error, or nil when ctx ends.
func (p *pipeline) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range p.workers - 1 {
		group.Go(func() error { p.work(ctx); return nil })
	}
	group.Go(func() error { return p.commit(ctx) })
	group.Go(func() error { return p.flush(ctx) })
	group.Go(func() error { p.chain.saved.run(ctx); return nil })
	return group.Wait()
}

// put queues an item; it waits while the pipeline is full.
func (p *pipeline) put(ctx context.Context, j *job) error {
	if p.rejoin() {
		return ErrRewound
	}
	j.base = p.known
	j.weight = min(j.weight, queueBytes)
	if err := p.bytes.Acquire(ctx, j.weight); err != nil {
		return err
	}
	select {
	case <-p.chain.stopped:
		return ErrStopped
	default:
	}
	select {
	case p.jobs <- j:
	case <-ctx.Done():
		p.bytes.Release(j.weight)
		return ctx.Err()
	case <-p.chain.stopped:
		return ErrStopped
	}
	// An item that stage 2 can take at once is checked there: no other goroutine needs to wake.
	if p.workers > 1 && len(p.jobs) > 0 {
		select {
		case p.help <- j:
		default:
		}
	}
	return nil
}

// configured waits for the configuration that came last: what follows is checked under it. The stream that brought it
// may have ended before.
func (p *pipeline) configured(ctx context.Context) error {
	if p.config == nil {
		return nil
	}
	select {
	case <-p.config:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.chain.stopped:
		return ErrStopped
	}
	p.bundle, p.config = p.chain.ledger.bundle.Load(), nil
	return nil
}

func isConfig(headerType int32) bool { return headerType == int32(commonpb.HeaderType_CONFIG) }

func (p *pipeline) addTx(ctx context.Context, raw []byte) error {
	if err := p.configured(ctx); err != nil {
		return err
	}
	kind := protoutil.HeaderType(raw)
	if kind < 0 {
		return fmt.Errorf("%w: transaction %d of block %d is not well-formed", ErrDishonest, p.position.Tx, p.position.Block)
	}
	bounds, ok := p.bounds.add(len(raw), isConfig(kind))
	if !ok {
		return p.unsealed(ctx)
	}
	j := &job{raw: raw, bundle: p.bundle, bounds: bounds, weight: int64(len(raw)), arrived: time.Now()}
	if isConfig(kind) {
		j.applied = make(chan struct{})
	}
	if err := p.put(ctx, j); err != nil {
		return err
	}
	p.position.Tx++
	p.bounds = bounds
	p.config = j.applied
	return p.configured(ctx)
}

func (p *pipeline) addWord(ctx context.Context, orderer string, word Word) error {
	if p.chain.Needed() < 2 {
		return nil
	}
	if p.rejoin() {
		return ErrRewound
	}
	if word.Position != p.position {
		return fmt.Errorf("%w: its word is for transaction %d of block %d, after transaction %d of block %d", ErrDishonest, word.Tx, word.Block, p.position.Tx, p.position.Block)
	}
	return p.put(ctx, &job{word: &word, by: orderer})
}

func (p *pipeline) addSeal(ctx context.Context, header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata) error {
	if header == nil {
		return fmt.Errorf("%w: it has no header", ErrSeal)
	}
	size := proto.Size(header) + proto.Size(metadata)
	if size > maxSeal {
		return fmt.Errorf("%w: its seal has %d bytes, at most %d are accepted", ErrDishonest, size, maxSeal)
	}
	if err := p.configured(ctx); err != nil {
		return err
	}
	if err := p.put(ctx, &job{header: header, metadata: metadata, bundle: p.blockBundle, weight: int64(size)}); err != nil {
		return err
	}
	p.position = Position{Block: p.position.Block + 1}
	p.blockBundle, p.bounds = p.bundle, newBounds(p.bundle)
	return nil
}

// work is a worker of stage 1.
func (p *pipeline) work(ctx context.Context) {
	for {
		select {
		case j := <-p.help:
			if j.mu.TryLock() {
				p.check(j)
				j.mu.Unlock()
			}
		case <-ctx.Done():
			return
		}
	}
}

// check does stage 1's work on an item, unless it is done; the caller holds the item's lock.
func (p *pipeline) check(j *job) {
	if j.checked {
		return
	}
	start := time.Now()
	j.check()
	p.busy[stageVerify].Add(time.Since(start))
}
